"""Starts a language server's process and gives its two pipes.

It runs under a supervisor, which ends it and all it started when it is asked
to, and when this server dies. What it writes to its error output is dropped:
it may hold anything, also secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.tools.lsp.peer import HEADER_LIMIT
from agents.tools.shell.identity import new_mark, recorded_start
from agents.tools.shell.process import Process, ProcessFailed
from agents.tools.shell.reaper import PROCESS_MARK


class CannotStart(Exception):
    """The sentence says why and holds no environment."""


@dataclass(slots=True)
class Launched:
    process: Process
    reader: asyncio.StreamReader
    transport: asyncio.WriteTransport
    pid_started: str
    _pipe: asyncio.ReadTransport = field(repr=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    async def end(self) -> None:
        """Within bounds, also while being cancelled."""
        if not self.transport.is_closing():
            self.transport.abort()
        self._pipe.close()
        await self.process.settle()


async def launch(argv: tuple[str, ...], *, cwd: Path, env: Mapping[str, str]) -> Launched:
    """Raises ``CannotStart``."""
    mark = new_mark()
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            theirs.callback(os.close, null)
            stdin, input_end = os.pipe()
            theirs.callback(os.close, stdin)
            ours.callback(os.close, input_end)
            output_end, stdout = os.pipe()
            theirs.callback(os.close, stdout)
            ours.callback(os.close, output_end)
            process = await Process.start(
                argv,
                cwd=cwd,
                env={**env, PROCESS_MARK: mark},
                stdin=stdin,
                stdout=stdout,
                stderr=null,
                is_limited=False,  # the user's own choice, and indexes may be large
            )
        except ProcessFailed as failed:
            raise CannotStart(str(failed)) from None
        except OSError as error:
            raise CannotStart(f"The system starts no process: {error.strerror}.") from None
        try:
            ours.pop_all()  # the transports close them from here on
            reader, pipe, transport = await _connect(output_end, input_end)
            recorded = await asyncio.to_thread(recorded_start, process.pid, mark)
        except BaseException:
            await process.settle()
            raise
    return Launched(process, reader, transport, recorded, pipe)


async def _connect(
    output_end: int, input_end: int
) -> tuple[asyncio.StreamReader, asyncio.ReadTransport, asyncio.WriteTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=HEADER_LIMIT)
    pipe, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(output_end, "rb", 0)
    )
    transport, _ = await loop.connect_write_pipe(
        asyncio.BaseProtocol, os.fdopen(input_end, "wb", 0)
    )
    return reader, pipe, transport
