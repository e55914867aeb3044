"""Messages on a language server's pipes: headers, an empty line, a JSON body.

The other side is not trusted: headers and bodies have limits, and whatever does
not fit ends the connection. Knows no method and no process.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

HEADER_LIMIT = 8 * 1024
BODY_LIMIT = 32 * 1024 * 1024
IN_A_THREAD = 128 * 1024  # parsing a larger body takes the loop's time


class BrokenPeer(Exception):
    """What came is no message; the sentence says why and quotes nothing of it."""


async def read_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message, ``None`` at the end. Raises ``BrokenPeer``."""
    try:
        header = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise BrokenPeer("its output ends inside a header") from None
        return None
    except asyncio.LimitOverrunError:
        raise BrokenPeer("it writes something else than messages to its output") from None
    size = _length(header)
    try:
        body = await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise BrokenPeer("its output ends inside a message") from None
    try:
        if size > IN_A_THREAD:
            message = await asyncio.to_thread(orjson.loads, body)
        else:
            message = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise BrokenPeer("a message of it is not JSON") from None
    if not isinstance(message, dict):
        raise BrokenPeer("a message of it is not an object")
    return message


def encode(message: dict[str, Any]) -> bytes:
    body = orjson.dumps(message)
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _length(header: bytes) -> int:
    if len(header) > HEADER_LIMIT:
        raise BrokenPeer("a header of it is too long")
    found: int | None = None
    for line in header.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and name.strip().lower() == b"content-length":
            digits = value.strip()
            if found is not None or not digits.isdigit() or len(digits) > 12:
                raise BrokenPeer("a header has no length")
            found = int(digits)
    if found is None:
        raise BrokenPeer("a header has no length")
    if found > BODY_LIMIT:
        raise BrokenPeer(f"a message of it is larger than {BODY_LIMIT:,} bytes")
    return found
