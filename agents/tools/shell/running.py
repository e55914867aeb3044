"""A command that runs while somebody else decides what becomes of it.

It may be waited for a while, handed on, and ended at any time; whoever holds it
calls ``finish`` once. Knows nothing of jobs, tools or rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.tools.shell.process import KILLED, Process, ProcessFailed
from agents.tools.shell.pump import Pump
from agents.tools.shell.pumped import Sink, start_pumped
from agents.tools.shell.shells import GO, gated
from agents.tools.shell.terminal import open_terminal
from workspaces.waiting import wait_until_set

_DRAIN_SECONDS = 2.0


class Running:
    def __init__(self, process: Process, pump: Pump, sink: Sink, gate: int | None) -> None:
        self._process = process
        self._pump = pump
        self._sink = sink
        self._gate = gate
        self._asked = asyncio.Event()
        self._ended = asyncio.ensure_future(process.wait())
        pump.start()

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        sink: Sink,
        is_held: bool = False,
        columns: int = 0,
    ) -> Running:
        """``is_held``: it does nothing before ``let_go``. ``columns``: it prints on a terminal.

        Raises ``ProcessFailed``.
        """
        with contextlib.ExitStack() as to_close, contextlib.ExitStack() as on_failure:
            try:
                gate: int | None = None
                if is_held:
                    stdin, gate = os.pipe()
                    on_failure.callback(os.close, gate)
                else:
                    stdin = os.open(os.devnull, os.O_RDONLY)
                to_close.callback(os.close, stdin)
                reads, writes = open_terminal(columns) if columns else os.pipe()
                to_close.callback(os.close, writes)
            except OSError as error:
                raise ProcessFailed(f"The system starts no process: {error.strerror}.") from None
            process, pump = await start_pumped(
                gated(argv) if is_held else argv,
                cwd=cwd,
                env=env,
                sink=sink,
                stdin=stdin,
                reads=reads,
                writes=writes,
            )
            on_failure.pop_all()
            return cls(process, pump, sink, gate)

    @property
    def pid(self) -> int:
        """0 when the command was over before it could be told."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        return self._ended.done()

    def let_go(self) -> None:
        """The held command begins. Callable twice."""
        if self._gate is not None:
            with contextlib.suppress(OSError):  # it was killed before it began
                os.write(self._gate, GO)
            self._shut_gate()

    async def wait(self, seconds: float) -> bool:
        """Whether it came to its end within this time."""
        await asyncio.wait({self._ended}, timeout=max(0.0, seconds))
        return self._ended.done()

    def end(self) -> None:
        """Ask for the end of it and all that it started; ``finish`` tells when that is done."""
        self._asked.set()

    async def finish(self) -> int:
        """Its exit code, once it and everything it started are gone and its output is read.

        Waits until it ends or is asked to end. Cancelling this ends it all first.
        """
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({self._ended, asked}, return_when=asyncio.FIRST_COMPLETED)
            await self._settle()
            # What still lies in the pipe. Bounded: who could not be killed may hold it open.
            await wait_until_set(self._pump.drained, seconds=_DRAIN_SECONDS)
        finally:
            asked.cancel()
            await self._settle()
            self._pump.close()
        if self._process.exceeded:
            # With its output, so that whoever reads that knows: a model, a job's owner, a user.
            self._sink.feed(f"\n{self._process.exceeded}\n".encode())
        return KILLED if self._process.exit_code is None else self._process.exit_code

    async def _settle(self) -> None:
        self._shut_gate()
        if not self._ended.done():
            self._ended.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ended
        await self._process.settle()

    def _shut_gate(self) -> None:
        if self._gate is not None:
            os.close(self._gate)
            self._gate = None
