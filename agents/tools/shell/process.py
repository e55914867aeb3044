"""Commands as processes: start one, wait for it, and end all that came of it.

Each command runs in a session of its own under a supervisor (``supervise.py``),
which ends every descendant with the command, with ``end``, and with the death
of this server. Knows nothing of tools, permissions or shells.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agents.tools.shell.pump import Pump
from agents.tools.shell.reaper import PROCESS_MARK, kill_marked
from agents.tools.shell.supervisor import SUPERVISOR

MAX_ARGUMENT_BYTES = 128 * 1024 - 1  # Linux takes no longer single argument
_SETTLE_SECONDS = 3.0  # each for the supervisor, and for its parent when that does not answer
_DRAIN_SECONDS = 2.0
_TRIES = 50
_START_SECONDS = 30.0
_KILLED = 137


class ProcessFailed(Exception):
    """The command could not be started; the sentence says why and holds no environment."""


class Sink(Protocol):
    def feed(self, chunk: bytes) -> bool:
        """Take output; false means "enough", and ends the command."""
        ...


@dataclass(frozen=True, slots=True)
class Finished:
    exit_code: int  # 128 + N for a signal N, as shells count
    timed_out: bool = False
    stopped: bool = False  # the sink had enough


class Process:
    """One started command. ``end`` may be called at any time and any number of times."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        supervisor_pid: int,
        mark: str,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._supervisor_pid = supervisor_pid
        self._mark = mark
        self.pid = 0
        self.exit_code: int | None = None
        self._over = False

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> Process:
        """Raises ``ProcessFailed``. The descriptors stay the caller's, to close after this."""
        request = _encode(argv, cwd, env)
        process = await _supervised(stdin, stdout, stderr, env.get(PROCESS_MARK, ""))
        writer = process._writer
        try:
            writer.write(len(request).to_bytes(8, "big") + request)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            word, value = await _next(process._reader)
        except BaseException:
            await process.settle()  # the command may have begun meanwhile
            raise
        if word == "failed":
            writer.close()
            raise ProcessFailed(f"{argv[0]} could not be started in {cwd}: {value}")
        if word == "started":  # else the command has killed its supervisor already: wait tells
            process.pid = int(value)
        return process

    async def wait(self) -> int:
        """The exit code, once the command and everything it started are gone."""
        while not self._over:
            word, value = await _next(self._reader)
            if word == "exited":
                self.exit_code = int(value)
            elif word in {"ended", "failed"}:
                self._over = True
            elif not word:  # the supervisor was killed: find what it held by the mark
                if self._mark:
                    await asyncio.to_thread(kill_marked, self._mark)
                self._over = True
        self._writer.close()
        return _KILLED if self.exit_code is None else self.exit_code

    def end(self) -> None:
        """Ask for the end of it all. Returns at once; ``wait`` tells when it is done."""
        with contextlib.suppress(OSError, RuntimeError):
            if not self._writer.is_closing():
                self._writer.write_eof()

    async def settle(self) -> None:
        """End it and wait until it is gone, within bounds, even while being cancelled."""
        self.end()
        waiting = asyncio.ensure_future(self.wait())
        try:
            _, late = await asyncio.wait({waiting}, timeout=_SETTLE_SECONDS)
            if late:
                # Stopped by its own command, or busy with what cannot be killed. It lives, so
                # the number is its own; its parent takes over what it held.
                with contextlib.suppress(OSError):
                    os.kill(self._supervisor_pid, signal.SIGKILL)
                _, late = await asyncio.wait({waiting}, timeout=_SETTLE_SECONDS)
            if late:
                waiting.cancel()
        finally:
            # Closing is enough for the supervisor: a second cancel loses nothing.
            if not waiting.done():
                waiting.add_done_callback(lambda _done: self._writer.close())


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
            finished = Finished(ended.result())
        else:
            stopped = pump.enough.is_set()
            finished = Finished(_KILLED, timed_out=not stopped, stopped=stopped)
    finally:
        enough.cancel()
        if not ended.done():
            ended.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ended
        await process.settle()
    # What still lies in the pipe. Bounded: who could not be killed may hold it open.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(pump.drained.wait(), _DRAIN_SECONDS)
    return finished


async def _supervised(stdin: int, stdout: int, stderr: int, mark: str) -> Process:
    """A fresh supervisor, which waits for its command."""
    for attempt in range(_TRIES):
        ours = await _asked(stdin, stdout, stderr)
        if ours is not None:
            reader, writer = await asyncio.open_connection(sock=ours)
            try:
                word, value = await _next(reader)
            except BaseException:
                writer.close()
                raise
            if word == "ready":
                return Process(reader, writer, supervisor_pid=int(value), mark=mark)
            writer.close()
        # Its parent has died, or has no room for it, or hundreds are waiting before us.
        await asyncio.sleep(0.002 * (attempt + 1))
    raise ProcessFailed("The system starts no more processes at the moment.")


async def _asked(stdin: int, stdout: int, stderr: int) -> socket.socket | None:
    if not SUPERVISOR.running:
        await asyncio.to_thread(SUPERVISOR.ensure_started)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        try:
            SUPERVISOR.spawn([theirs.fileno(), stdin, stdout, stderr])
        except (BlockingIOError, ConnectionError):
            ours.close()
            return None
        except BaseException:
            ours.close()
            raise
    return ours


async def _next(reader: asyncio.StreamReader) -> tuple[str, str]:
    """The supervisor's next word and its value; empty when it is gone."""
    try:
        line = await reader.readline()
    except ConnectionError:
        line = b""
    word, _, value = line.decode("utf-8", errors="replace").rstrip("\n").partition(" ")
    return word, value


def _encode(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> bytes:
    fields = [str(cwd), str(len(argv)), *argv]
    fields += [f"{name}={value}" for name, value in env.items() if name and "=" not in name]
    try:
        encoded = [os.fsencode(field) for field in fields]
    except UnicodeEncodeError:
        raise ProcessFailed("The command holds characters that are not Unicode text.") from None
    if any(len(field) > MAX_ARGUMENT_BYTES for field in encoded[2:]):
        raise ProcessFailed(f"The command could not be started: {os.strerror(errno.E2BIG)}")
    if any(b"\0" in field for field in encoded):
        raise ProcessFailed("The command holds a NUL character.")
    return b"\0".join(encoded)
