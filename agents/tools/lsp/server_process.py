"""Starts a language server's process and returns its two pipes.

The process runs under a supervisor, which ends it with its descendants on request and
when this server dies. Its stderr is discarded, because it may contain secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.tools.lsp.peer import HEADER_LIMIT
from agents.tools.shell.identity import PROCESS_MARK, new_mark, recorded_start
from agents.tools.shell.pipes import connect_reader, connect_writer
from agents.tools.shell.process import Process, ProcessFailed


class CannotStart(Exception):
    """The process could not be started. The message gives the reason and no environment."""


@dataclass(slots=True)
class StartedServer:
    process: Process
    reader: asyncio.StreamReader
    transport: asyncio.WriteTransport
    pid_started: str
    _pipe: asyncio.ReadTransport = field(repr=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    async def end(self) -> None:
        """Ends the process within limits, even during a cancel."""
        if not self.transport.is_closing():
            self.transport.abort()
        self._pipe.close()
        await self.process.settle()


async def launch(argv: tuple[str, ...], *, cwd: Path, env: Mapping[str, str]) -> StartedServer:
    """Starts the process. Raises ``CannotStart``."""
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
                is_limited=False,  # the user configured it, and indexes may be large
            )
        except ProcessFailed as failed:
            raise CannotStart(str(failed)) from None
        except OSError as error:
            raise CannotStart(f"The system could not start a process: {error.strerror}.") from None
        try:
            ours.pop_all()  # the transports close them from here on
            reader, pipe, transport = await _connect(output_end, input_end)
            recorded = await asyncio.to_thread(recorded_start, process.pid, mark)
        except BaseException:
            await process.settle()
            raise
    return StartedServer(process, reader, transport, recorded, pipe)


async def _connect(
    output_end: int, input_end: int
) -> tuple[asyncio.StreamReader, asyncio.ReadTransport, asyncio.WriteTransport]:
    reader, pipe = await connect_reader(output_end, limit=HEADER_LIMIT)
    transport, _ = await connect_writer(input_end, asyncio.BaseProtocol)
    return reader, pipe, transport
