"""Runs commands to their end with a timeout, and pumps their output into a sink."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from agents.tools.shell.kept import KeepOrder, Taken
from agents.tools.shell.process import KILLED, Process, ProcessFailed
from agents.tools.shell.terminal import open_terminal
from workspaces.tasks import cancel_within, unless_set, wait_until_set

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
        self.descriptor = descriptor
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._read = 0
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False
        self.drained = asyncio.Event()  # no writer is left, or the pump is closed
        self.enough = asyncio.Event()  # the sink accepts no more

    def start(self) -> None:
        if not self._closed and not self.drained.is_set():
            self._pause = None
            self._loop.add_reader(self.descriptor, self._on_readable)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._pause is not None:
                self._pause.cancel()
            self._loop.remove_reader(self.descriptor)
            os.close(self.descriptor)
            self.drained.set()

    def _on_readable(self) -> None:
        flood = self._read > _FLOOD_AFTER
        try:
            chunk = self._next(flood=flood)
        except (BlockingIOError, InterruptedError):
            return
        if not chunk or self.enough.is_set():
            self._loop.remove_reader(self.descriptor)
            self.drained.set()
            return
        before, self._read = self._read, self._read + len(chunk)
        if not self._sink.feed(chunk):
            self.enough.set()
        if flood:
            self._loop.remove_reader(self.descriptor)
            self._pause = self._loop.call_later(_FLOOD_PAUSE_SECONDS, self.start)
        elif before <= _FLOOD_AFTER < self._read and hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, _FLOOD_CHUNK)

    def _next(self, *, flood: bool) -> bytes:
        """Reads output; empty at the end. Raises ``BlockingIOError`` if there is none yet."""
        chunks: list[bytes] = []
        while True:
            try:
                chunk = os.read(self.descriptor, _FLOOD_CHUNK if flood else _CHUNK)
            except (BlockingIOError, InterruptedError):
                if not chunks:
                    raise
                break
            except OSError:  # a terminal raises this when no writer is left
                chunk = b""
            if chunk:
                chunks.append(chunk)
            # A terminal returns one page per read: a pause after each would slow the command.
            if not (chunk and flood) or len(chunk) >= _CHUNK or len(chunks) >= _FLOOD_READS:
                break
        return b"".join(chunks)


_DRAIN_SECONDS = 2.0
_START_SECONDS = 30.0


class Sink(Protocol):
    def feed(self, chunk: bytes) -> bool:
        """Receives output; false means "enough", and ends the command."""
        ...


@dataclass(frozen=True, slots=True)
class Finished:
    exit_code: int  # 128 + N for a signal N, as shells count
    timed_out: bool = False
    stopped: bool = False  # the sink had enough
    exceeded: str = ""  # the exceeded limit, as a sentence


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
    """Runs a command to its end and feeds ``sink``. Raises ``ProcessFailed``.

    stderr joins stdout unless it has its own descriptor. On a cancel, a timeout or a full
    sink everything that the command started is killed before this returns.
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
    """Starts a command, and a pump that takes ownership of ``reads``. Raises ``ProcessFailed``.

    The caller keeps the other descriptors and closes them after this call.
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
    """Converts system errors and timeouts to ``ProcessFailed``."""
    try:
        yield
    except TimeoutError:
        raise ProcessFailed("Starting the process took too long.") from None
    except OSError as error:
        raise ProcessFailed(f"The system could not start a process: {error.strerror}.") from None


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
    # Read the rest of the pipe, with a limit: an unkillable process may hold it open.
    await wait_until_set(pump.drained, seconds=_DRAIN_SECONDS)
    return finished


GO = b"go\n"

# ``exec`` keeps the process, so the recorded pid and start time stay valid. When the process
# that holds the gate dies, the read fails and the command never runs.
_GATE = 'read -r go && exec "$@" </dev/null'


def shell_command(command: str, env: Mapping[str, str]) -> list[str]:
    path = env.get("PATH")
    shell = shutil.which("bash", path=path) or shutil.which("sh", path=path) or "/bin/sh"
    return [shell, "-c", command]


def gated(argv: Sequence[str]) -> list[str]:
    """Wraps a command so that it begins when ``GO`` arrives on its standard input."""
    return ["/bin/sh", "-c", _GATE, "sh", *argv]


class CommandLeft(Exception):
    """The command continues without this server."""


class Running:
    def __init__(self, process: Process, pump: Pump, sink: Sink, gate: int | None) -> None:
        self._process = process
        self._pump = pump
        self._sink = sink
        self._gate = gate
        self._end_requested = asyncio.Event()
        self._is_left = False
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
        """Starts a command. Raises ``ProcessFailed``.

        With ``is_held`` the command begins at ``release``. With ``columns`` it prints on a
        terminal of that width.
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
                raise ProcessFailed(
                    f"The system could not start a process: {error.strerror}."
                ) from None
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

    @classmethod
    async def take(cls, taken: Taken, *, pid: int, supervisor: int, mark: str, sink: Sink) -> Self:
        """Returns a command of a server that is gone, taken from its supervisor."""
        process = await Process.attach(taken.control, pid=pid, supervisor_pid=supervisor, mark=mark)
        return cls(process, Pump(taken.source, sink), sink, None)

    async def keep(self, order: KeepOrder, file: int) -> bool:
        """Lets the command outlive this server; returns whether it will."""
        return await self._process.keep(order, source=self._pump.descriptor, file=file)

    def leave(self) -> None:
        """Makes ``finish`` raise ``CommandLeft``: nothing more is read from the command.

        Then ``hand_over`` gives the command to its supervisor.
        """
        self._is_left = True
        self._end_requested.set()

    def hand_over(self) -> None:
        self._process.leave()

    @property
    def supervisor_pid(self) -> int:
        return self._process.supervisor_pid

    @property
    def pid(self) -> int:
        """The command's process id; 0 when it ended before its id was reported."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        return self._ended.done()

    def release(self) -> None:
        """Lets a held command begin. Idempotent."""
        if self._gate is not None:
            with contextlib.suppress(OSError):  # it was killed before it began
                os.write(self._gate, GO)
            self._shut_gate()

    async def wait(self, seconds: float) -> bool:
        """Returns whether the command ended within this time."""
        await asyncio.wait({self._ended}, timeout=max(0.0, seconds))
        return self._ended.done()

    def end(self) -> None:
        """Requests the end of the command and its descendants; ``finish`` waits for it."""
        self._end_requested.set()

    async def finish(self) -> int:
        """Returns the exit code after the command and its descendants are gone.

        Waits for the command's end or a call of ``end``, and reads the remaining output.
        A cancelled call ends the command before it returns. Raises ``CommandLeft``.
        """
        try:
            has_ended = await unless_set(self._ended, self._end_requested)
            if self._is_left and not has_ended:
                self._pump.close()
                await cancel_within([self._ended], seconds=1)
                raise CommandLeft
            await self._settle()
            # Read the rest of the pipe, with a limit: an unkillable process may hold it open.
            await wait_until_set(self._pump.drained, seconds=_DRAIN_SECONDS)
        except CommandLeft:
            raise
        except BaseException:
            await self._settle()
            raise
        finally:
            self._pump.close()
        if self._process.exceeded:
            # Add it to the output, so that every reader sees it: a model, a job's owner, a user.
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
