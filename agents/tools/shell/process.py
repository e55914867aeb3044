"""Starts a command, waits for it, and ends it with all its descendants.

Each command runs in a session of its own under a supervisor (``supervise.py``). The
supervisor ends every descendant when the command ends, on ``end``, and when this
server dies, unless ``keep`` was called. Independent of tools, permissions and shells.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.tools.shell.identity import PROCESS_MARK, kill_marked
from agents.tools.shell.kept import END, TAKE_SECONDS, KeepOrder
from agents.tools.shell.tree_limits import LIMITED, UNLIMITED, TreeLimits
from workspaces.tasks import wait_until_set

KILLED = 137  # 128 + the signal's number, as shells count
MAX_ARGUMENT_BYTES = 128 * 1024 - 1  # Linux takes no longer single argument
_SETTLE_SECONDS = 3.0  # for the supervisor, then again for its parent
_TRIES = 50


class ProcessFailed(Exception):
    """The command could not be started. The message gives the reason and no environment."""


class Process:
    """One started command. ``end`` is idempotent and may be called at any time."""

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
        self.exceeded = ""  # the exceeded limit, as a sentence
        self._over = False
        self._is_kept = False
        self._answered = asyncio.Event()  # the supervisor has answered ``keep``, or is gone

    @classmethod
    async def attach(
        cls, control: socket.socket, *, pid: int, supervisor_pid: int, mark: str
    ) -> Process:
        """Returns a command that its supervisor has handed over, which ``keep`` started."""
        reader, writer = await asyncio.open_connection(sock=control)
        process = cls(reader, writer, supervisor_pid=supervisor_pid, mark=mark)
        process.pid = pid
        process._is_kept = True
        return process

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
        is_limited: bool = True,
    ) -> Process:
        """Starts a command. Raises ``ProcessFailed``.

        The caller keeps the descriptors and closes them after this call. With ``is_limited``
        the limits on memory, processes and file size apply.
        """
        request = _encode(argv, cwd, env)
        mark = env.get(PROCESS_MARK, "")
        process = await _supervised([stdin, stdout, stderr], mark, is_limited=is_limited)
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
        if word == "started":  # else the command has killed its supervisor: ``wait`` handles it
            process.pid = int(value)
        return process

    async def wait(self) -> int:
        """Returns the exit code, after the command and everything it started are gone."""
        while not self._over:
            word, value = await _next(self._reader)
            if word == "exited":
                self.exit_code = int(value)
            elif word == "exceeded":
                self.exceeded = SUPERVISOR.limits.sentence(value)
            elif word in {"kept", "refused"}:
                self._is_kept = word == "kept"
                self._answered.set()
            elif word in {"ended", "failed"}:
                self._over = True
            elif not word:  # the supervisor was killed: find its processes by the mark
                if self._mark:
                    await asyncio.to_thread(kill_marked, self._mark)
                self._over = True
        self._answered.set()
        self._writer.close()
        return KILLED if self.exit_code is None else self.exit_code

    def end(self) -> None:
        """Requests the end of the command and its descendants, for which ``wait`` waits."""
        with contextlib.suppress(OSError, RuntimeError):
            if not self._writer.is_closing():
                if self._is_kept:
                    self._writer.write(END)
                self._writer.write_eof()

    @property
    def supervisor_pid(self) -> int:
        return self._supervisor_pid

    async def keep(self, order: KeepOrder, *, source: int, file: int) -> bool:
        """Lets the command outlive this server; returns whether it will.

        ``source`` is where its output is read, ``file`` is where the supervisor stores it. Only
        while another task waits in ``wait``, which receives the answer.
        """
        try:
            # The transport cannot send descriptors, and owns its socket.
            with socket.socket(
                fileno=os.dup(self._writer.get_extra_info("socket").fileno())
            ) as control:
                socket.send_fds(control, [order.encode()], [source, file])
        except OSError:
            return False
        await wait_until_set(self._answered, seconds=TAKE_SECONDS)
        SUPERVISOR.keeps_commands |= self._is_kept
        return self._is_kept

    def leave(self) -> None:
        """Gives a kept command to its supervisor, which waits for the next server."""
        self._writer.close()

    async def settle(self) -> None:
        """Ends the command and waits until it is gone, within limits, even during a cancel."""
        self.end()
        waiting = asyncio.ensure_future(self.wait())
        try:
            _, late = await asyncio.wait({waiting}, timeout=_SETTLE_SECONDS)
            if late:
                # Its command has stopped it, or a process cannot be killed. The supervisor still
                # lives, so its number is not reused. Its parent takes over its processes.
                with contextlib.suppress(OSError):
                    os.kill(self._supervisor_pid, signal.SIGKILL)
                _, late = await asyncio.wait({waiting}, timeout=_SETTLE_SECONDS)
            if late:
                waiting.cancel()
        finally:
            # A closed socket is enough for the supervisor, so a second cancel does no harm.
            if not waiting.done():
                waiting.add_done_callback(lambda _done: self._writer.close())


async def _supervised(stdio: Sequence[int], mark: str, *, is_limited: bool) -> Process:
    """Returns a new supervisor that waits for its command. Raises ``ProcessFailed``."""
    for attempt in range(_TRIES):
        ours = await _request_supervisor(stdio, is_limited=is_limited)
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
        # The starting process has died, cannot fork, or has hundreds of pending requests.
        await asyncio.sleep(0.002 * (attempt + 1))
    raise ProcessFailed("The system cannot start more processes at the moment.")


async def _request_supervisor(stdio: Sequence[int], *, is_limited: bool) -> socket.socket | None:
    if not SUPERVISOR.running:
        await asyncio.to_thread(SUPERVISOR.ensure_started)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        try:
            SUPERVISOR.spawn([theirs.fileno(), *stdio], is_limited=is_limited)
        except (BlockingIOError, ConnectionError):
            ours.close()
            return None
        except BaseException:
            ours.close()
            raise
    return ours


async def _next(reader: asyncio.StreamReader) -> tuple[str, str]:
    """Reads the supervisor's next word and its value; both are empty when it is gone."""
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
        raise ProcessFailed("The command contains characters that are not valid Unicode.") from None
    if any(len(field) > MAX_ARGUMENT_BYTES for field in encoded[2:]):
        raise ProcessFailed(f"The command could not be started: {os.strerror(errno.E2BIG)}")
    if any(b"\0" in field for field in encoded):
        raise ProcessFailed("The command contains a NUL character.")
    return b"\0".join(encoded)


_LINKER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # some interpreters do not start without
_SCRIPT = Path(__file__).with_name("supervise.py")


class Supervisor:
    def __init__(self) -> None:
        self.limits = TreeLimits()  # of each command; read when the process is started
        self.folder = ""  # the data folder; by it kept commands are recognised as tools
        self.keeps_commands = False  # it may outlive this process
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def ensure_started(self) -> None:
        """Starts the process if necessary, which blocks for about 30 ms: call it in a thread."""
        with self._lock:
            if self.running:
                return
            self._drop()
            ours, theirs = socket.socketpair()
            with theirs:
                # Almost no environment: any command can read its parent's, and the
                # server's contains keys. A session of its own: no terminal signal reaches it.
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", str(_SCRIPT)),
                        *(str(theirs.fileno()), self.limits.encode(), self.folder),
                    ],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={name: os.environ[name] for name in _LINKER if name in os.environ},
                    start_new_session=True,
                )
            ours.setblocking(False)
            self._socket = ours
            self._owner = os.getpid()
            if sys.platform == "linux":
                threading.Thread(
                    target=_end_when_stopped, args=[self._process.pid], daemon=True
                ).start()

    @property
    def running(self) -> bool:
        return (
            self._owner == os.getpid()  # a forked server must not share its parent's
            and self._process is not None
            and self._process.poll() is None
        )

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def spawn(self, descriptors: Sequence[int], *, is_limited: bool) -> None:
        """Sends control, stdin, stdout and stderr. Never blocks; raises ``OSError``."""
        if self._socket is None:
            raise BrokenPipeError
        socket.send_fds(self._socket, [LIMITED if is_limited else UNLIMITED], list(descriptors))

    def close(self) -> None:
        """Ends the process with all commands that still run."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._owner != os.getpid():
            self._socket = self._process = None
            return
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None and self.keeps_commands:
            # It ends by itself, after the last command that it keeps.
            self._process.returncode = 0  # prevents a warning that it still runs
            self._process, self.keeps_commands = None, False
        elif self._process is not None:
            try:
                self._process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def _end_when_stopped(pid: int) -> None:
    """Kills the process that enforces the limits if a command has stopped it.

    All commands end with it, and the next command starts another. Returns when the process
    has ended.
    """
    with contextlib.suppress(ChildProcessError):
        # Do not reap it here: ``Popen`` must also see its end.
        state = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if state is not None and state.si_code == os.CLD_STOPPED:
            os.kill(pid, signal.SIGKILL)


SUPERVISOR = Supervisor()
atexit.register(SUPERVISOR.close)
