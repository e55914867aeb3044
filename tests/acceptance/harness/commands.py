"""`manage.py` commands as a person types them: in a terminal or not, beside a server or without."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tests.acceptance.harness.environment import ROOT

_SECONDS = 180.0  # only guards against a command that hangs


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


def command(env: Mapping[str, str], *arguments: str, stdin: str = "") -> Done:
    """Run to its end, with no terminal."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        env=dict(env),
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


# A test run that was started in the background ignores Ctrl-C and passes that on. A terminal of a
# person does not.
DEFAULT_SIGNALS = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Typed:
    """A command in a terminal of its own: what it shows, and keys for it. A context manager."""

    def __init__(self, env: Mapping[str, str], *arguments: str) -> None:
        self.shown = ""
        self._terminal, terminal_of_child = pty.openpty()
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-c", DEFAULT_SIGNALS, sys.executable, "manage.py", *arguments],
                env=dict(env),
                cwd=ROOT,
                stdin=terminal_of_child,
                stdout=terminal_of_child,
                stderr=terminal_of_child,
                start_new_session=True,
            )
        finally:
            os.close(terminal_of_child)

    def wait_for(self, text: str, *, start: int = 0) -> None:
        """Returns when the text is shown, after the first `start` characters."""
        deadline = time.monotonic() + _SECONDS
        while text not in self.shown[start:]:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} was not shown, but:\n{self.shown}")

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def resize(self, *, columns: int, rows: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        self._child.send_signal(signal.SIGWINCH)

    def interrupt(self) -> None:
        self._child.send_signal(signal.SIGINT)

    def kill(self) -> None:
        self._child.kill()
        self._child.wait(_SECONDS)

    def end(self) -> int:
        """Its exit code."""
        deadline = time.monotonic() + _SECONDS
        while self._read(deadline):
            pass
        return self._child.wait(_SECONDS)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            raise AssertionError(f"the command hangs; it has shown:\n{self.shown}")
        try:
            chunk = os.read(self._terminal, 65_536)
        except OSError:  # Linux's way to say that nobody holds the other side
            return False
        self.shown += chunk.decode(errors="replace")
        return bool(chunk)

    def __enter__(self) -> "Typed":
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        os.close(self._terminal)
