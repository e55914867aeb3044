"""Connects the pipes of a process to the event loop, which closes their descriptors from then on.

uvloop closes the descriptor of a pipe itself, and then also calls ``close`` of the file object that
it was given (``UVSocketHandle._close``), expecting an error. Between the two, another thread may
have opened a file with the same number, such as the database's, which would then be closed instead.
So the file object must not close the descriptor there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

_P = TypeVar("_P", bound=asyncio.BaseProtocol)


async def connect_reader(
    descriptor: int, *, limit: int
) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader(limit=limit)
    loop = asyncio.get_running_loop()
    file = os.fdopen(descriptor, "rb", 0, closefd=_closes_files(loop))
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader, transport


async def connect_writer(
    descriptor: int, make_protocol: Callable[[], _P]
) -> tuple[asyncio.WriteTransport, _P]:
    loop = asyncio.get_running_loop()
    file = os.fdopen(descriptor, "wb", 0, closefd=_closes_files(loop))
    return await loop.connect_write_pipe(make_protocol, file)


def _closes_files(loop: asyncio.AbstractEventLoop) -> bool:
    """Returns whether the loop leaves closing the descriptor to the file object."""
    return isinstance(loop, asyncio.BaseEventLoop)
