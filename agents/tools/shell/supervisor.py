"""The server's hold on the process that starts commands (``supervise.py``).

One for each server process, started at the first command and again when it
died. It knows descriptors, not commands: ``process.py`` speaks with each
command's own supervisor.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from agents.tools.shell.tree_limits import LIMITED, UNLIMITED, TreeLimits

_LINKER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # some interpreters do not start without
_SCRIPT = Path(__file__).with_name("supervise.py")


class Supervisor:
    def __init__(self) -> None:
        self.limits = TreeLimits()  # of each command; read when the process is started
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def ensure_started(self) -> None:
        """Blocks for about 30 ms when it has to start; call it in a thread."""
        with self._lock:
            if self.running:
                return
            self._drop()
            ours, theirs = socket.socketpair()
            with theirs:
                # Nearly no environment: any command can read its parent's, and the
                # server's holds keys. Its own session: no terminal signal reaches it.
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", str(_SCRIPT)),
                        *(str(theirs.fileno()), self.limits.encode()),
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
        """Hand over control, stdin, stdout and stderr. Never blocks; raises ``OSError``."""
        if self._socket is None:
            raise BrokenPipeError
        socket.send_fds(self._socket, [LIMITED if is_limited else UNLIMITED], list(descriptors))

    def close(self) -> None:
        """End it, and with it all that still runs."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._owner != os.getpid():
            self._socket = self._process = None
            return
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def _end_when_stopped(pid: int) -> None:
    """A command may stop the process that watches its limits. Ended, it takes all commands with
    it, and the next one starts another. Returns when the process has ended."""
    with contextlib.suppress(ChildProcessError):
        # Left to be collected: its parent has to learn the end, too.
        state = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if state is not None and state.si_code == os.CLD_STOPPED:
            os.kill(pid, signal.SIGKILL)


SUPERVISOR = Supervisor()
atexit.register(SUPERVISOR.close)
