"""Commands whose output is pumped into a sink: run to the end, within a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agents.tools.shell.process import KILLED, Process, ProcessFailed
from agents.tools.shell.pump import Pump
from workspaces.waiting import wait_until_set

_DRAIN_SECONDS = 2.0
_START_SECONDS = 30.0


class Sink(Protocol):
    def feed(self, chunk: bytes) -> bool:
        """Take output; false means "enough", and ends the command."""
        ...


@dataclass(frozen=True, slots=True)
class Finished:
    exit_code: int  # 128 + N for a signal N, as shells count
    timed_out: bool = False
    stopped: bool = False  # the sink had enough
    exceeded: str = ""  # the limit for which it was ended, as a sentence


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    sink: Sink,
    timeout_seconds: float,
    stdin: int | None = None,
    stderr: int | None = None,
) -> Finished:
    """Run to the end, feeding ``sink``; stderr joins stdout unless it has its own descriptor.

    Raises ``ProcessFailed``. On cancel, timeout and a full sink everything the
    command started is killed before this returns.
    """
    with contextlib.ExitStack() as opened:
        with _named_as_failure():
            if stdin is None:
                stdin = os.open(os.devnull, os.O_RDONLY)
                opened.callback(os.close, stdin)
            reads, writes = os.pipe()
        opened.callback(os.close, writes)
        process, pump = await start_pumped(
            argv,
            cwd=cwd,
            env=env,
            sink=sink,
            stdin=stdin,
            reads=reads,
            writes=writes,
            stderr=stderr,
        )
    try:
        return await _follow(process, pump, timeout_seconds)
    finally:
        pump.close()


async def start_pumped(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    sink: Sink,
    stdin: int,
    reads: int,
    writes: int,
    stderr: int | None = None,
) -> tuple[Process, Pump]:
    """A command whose output comes out at ``reads``, and the pump that owns it from here on.

    The other descriptors stay the caller's, to close after this. Raises ``ProcessFailed``.
    """
    pump = Pump(reads, sink)
    try:
        with _named_as_failure():
            async with asyncio.timeout(_START_SECONDS):
                process = await Process.start(
                    argv,
                    cwd=cwd,
                    env=env,
                    stdin=stdin,
                    stdout=writes,
                    stderr=writes if stderr is None else stderr,
                )
    except BaseException:
        pump.close()
        raise
    return process, pump


@contextlib.contextmanager
def _named_as_failure() -> Iterator[None]:
    """What the system refuses is told as ``ProcessFailed``."""
    try:
        yield
    except TimeoutError:
        raise ProcessFailed("The system takes too long to start a process.") from None
    except OSError as error:
        raise ProcessFailed(f"The system starts no process: {error.strerror}.") from None


async def _follow(process: Process, pump: Pump, timeout_seconds: float) -> Finished:
    pump.start()
    ended = asyncio.ensure_future(process.wait())
    enough = asyncio.ensure_future(pump.enough.wait())
    try:
        await asyncio.wait(
            {ended, enough}, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if ended.done():
            finished = Finished(ended.result(), exceeded=process.exceeded)
        else:
            stopped = pump.enough.is_set()
            finished = Finished(KILLED, timed_out=not stopped, stopped=stopped)
    finally:
        enough.cancel()
        if not ended.done():
            ended.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ended
        await process.settle()
    # What still lies in the pipe. Bounded: who could not be killed may hold it open.
    await wait_until_set(pump.drained, seconds=_DRAIN_SECONDS)
    return finished
