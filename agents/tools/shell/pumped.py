"""Commands whose output is pumped into a sink: run to the end, within a time."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agents.tools.shell.process import KILLED, Process, ProcessFailed
from workspaces.tasks import wait_until_set

_CHUNK = 64 * 1024
_FLOOD_AFTER = 1024 * 1024
_FLOOD_CHUNK = 1024 * 1024
_FLOOD_READS = 64
_FLOOD_PAUSE_SECONDS = 0.003


class _Sink(Protocol):
    def feed(self, chunk: bytes) -> bool: ...


class Pump:
    def __init__(self, descriptor: int, sink: _Sink) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._read = 0
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False
        self.drained = asyncio.Event()  # nobody can write any more
        self.enough = asyncio.Event()  # the sink wants no more

    def start(self) -> None:
        if not self._closed and not self.drained.is_set():
            self._pause = None
            self._loop.add_reader(self._descriptor, self._on_readable)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._pause is not None:
                self._pause.cancel()
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self.drained.set()

    def _on_readable(self) -> None:
        flood = self._read > _FLOOD_AFTER
        try:
            chunk = self._next(flood=flood)
        except (BlockingIOError, InterruptedError):
            return
        if not chunk or self.enough.is_set():
            self._loop.remove_reader(self._descriptor)
            self.drained.set()
            return
        before, self._read = self._read, self._read + len(chunk)
        if not self._sink.feed(chunk):
            self.enough.set()
        if flood:
            self._loop.remove_reader(self._descriptor)
            self._pause = self._loop.call_later(_FLOOD_PAUSE_SECONDS, self.start)
        elif before <= _FLOOD_AFTER < self._read and hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _FLOOD_CHUNK)

    def _next(self, *, flood: bool) -> bytes:
        """Empty at the end. Raises ``BlockingIOError`` when there is nothing yet."""
        chunks: list[bytes] = []
        while True:
            try:
                chunk = os.read(self._descriptor, _FLOOD_CHUNK if flood else _CHUNK)
            except (BlockingIOError, InterruptedError):
                if not chunks:
                    raise
                break
            except OSError:  # a terminal's way to say that nobody can write any more
                chunk = b""
            if chunk:
                chunks.append(chunk)
            # A terminal gives a page at a time: a pause after each would slow its command down.
            if not (chunk and flood) or len(chunk) >= _CHUNK or len(chunks) >= _FLOOD_READS:
                break
        return b"".join(chunks)


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
