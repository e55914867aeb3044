"""One child process with its output in a file, and the promise that it does not outlive us.

Knows signals and log lines; nothing of what the process serves.
"""

import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The kernel's parent-death signal is tied to the *thread* that forked. One thread that lives as long
# as this process starts every child, so `asyncio.to_thread(server.start)` is safe.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
_LIVING: "weakref.WeakSet[Process]" = weakref.WeakSet()
_POLL_SECONDS = 0.005
_SCAN_SECONDS = 0.1  # between two readings of all environments
# A server that hangs ends itself after half of this, with an exit code that fails the test.
_END_SECONDS = 60.0
_TAIL_CHARS = 6_000


class ProcessFailed(AssertionError):
    """A process ended, hung or spoke otherwise than it should; the message carries its last output."""


class Process:
    """A command that can be started, watched, killed, and started again. Methods may block."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        user: str | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._argv = [*_prefix(user), *argv]
        self._env = dict(env)
        self._cwd = cwd
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        if self._child is None:
            raise ProcessFailed(f"{self.name} was not started")
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        if self.alive:
            raise ProcessFailed(f"{self.name} runs already")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            self._log_start = out.tell()
            self._child = _SPAWNER.submit(
                subprocess.Popen,
                self._argv,
                env=self._env,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ).result()
        _LIVING.add(self)

    def wait_for_line(self, pattern: str, timeout: float = 60) -> str:
        """The first line since the last start that matches `pattern` from its beginning."""
        expression = re.compile(pattern)
        deadline = time.monotonic() + timeout
        while True:
            # Read the state first: what a process wrote before it ended is then surely in the file.
            ended = not self.alive
            for line in self._lines():
                if expression.match(line):
                    return line
            if ended:
                raise self.failure(f"ended ({self.returncode}) before it printed {pattern!r}")
            if time.monotonic() > deadline:
                raise self.failure(f"did not print {pattern!r} within {timeout} s")
            time.sleep(_POLL_SECONDS)

    def _lines(self) -> Iterator[str]:
        text = self.log_text(since_start=True)
        for line in text.splitlines(keepends=True):
            if line.endswith("\n"):  # the last one may be half written
                yield line.rstrip("\n")

    def log_text(self, *, since_start: bool = False) -> str:
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(self._log_start if since_start else 0)
            return log.read().decode(errors="replace")

    @property
    def returncode(self) -> int | None:
        return None if self._child is None else self._child.poll()

    def send(self, number: signal.Signals) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def wait(self, timeout: float = _END_SECONDS) -> int:
        if self._child is None:
            raise ProcessFailed(f"{self.name} was not started")
        try:
            return self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {timeout} s") from None

    def kill9(self) -> None:
        """SIGKILL, and wait until it is gone. Does nothing to a process that ended."""
        self.send(signal.SIGKILL)
        if self._child is not None:
            self._child.wait()
        _LIVING.discard(self)

    def stop(self, timeout: float = _END_SECONDS) -> int:
        """SIGTERM, and the exit code. A process that ignores it is killed and reported."""
        self.send(signal.SIGTERM)
        try:
            return self.wait(timeout)
        finally:
            self.kill9()

    def failure(self, what: str) -> ProcessFailed:
        tail = self.log_text()[-_TAIL_CHARS:]
        return ProcessFailed(f"{self.name} {what}; its last output:\n{tail}")


def run(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, user: str | None = None) -> str:
    """Run a short command to its end; its output. Raises with the output when it fails."""
    done = subprocess.run(
        [*_prefix(user), *argv],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise ProcessFailed(
            f"{argv[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-_TAIL_CHARS:]}"
        )
    return done.stdout


def marked(mark: str) -> list[int]:
    """Pids of all living processes whose environment holds `mark` (Linux; elsewhere none)."""
    encoded = mark.encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if encoded in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # ended meanwhile, or not ours
            continue
    return [pid for pid in found if pid != os.getpid()]


def kill_marked(mark: str) -> list[int]:
    """Kill what a server left behind; the pids that were there."""
    found = marked(mark)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return found


def supervisors(folder: str) -> list[int]:
    """Pids of the processes that keep the commands of servers with a data folder below this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        line = _command_line(int(entry.name))
        if "/supervise.py " in line and folder in line:
            found.append(int(entry.name))
    return found


def end_kept_commands(data_dir: Path, within_seconds: float = 10) -> None:
    """End what outlived its server, as an operator would: without their files, they end."""
    for file in (data_dir / "commands").glob("*"):
        file.unlink(missing_ok=True)
    deadline = time.monotonic() + within_seconds
    while supervisors(str(data_dir)) and time.monotonic() < deadline:
        time.sleep(_SCAN_SECONDS)


def end_leftovers(folder: str, within_seconds: float = 10) -> list[str]:
    """Wait for all processes of servers with a data folder below this one; kill the late ones.

    Returns the command lines of those that were killed.
    """
    deadline = time.monotonic() + within_seconds
    mark = f"CRUSH_DATA_DIR={folder}"
    while (pids := marked(mark) + supervisors(folder)) and time.monotonic() < deadline:
        time.sleep(_SCAN_SECONDS)
    lines = [f"{pid}: {_command_line(pid)}" for pid in pids]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return lines


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return "ended"


def _prefix(user: str | None) -> list[str]:
    # setpriv executes the command in its own place, so the pid stays ours to kill. Not preexec_fn:
    # running Python between fork and exec is unsafe with threads, and warned about from 3.12 on.
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        if user is not None:
            raise ProcessFailed("setpriv is missing: install the package util-linux")
        return []
    prefix = [setpriv, "--pdeathsig", "KILL"]
    if user is not None:
        prefix += ["--reuid", user, "--regid", user, "--init-groups"]
    return [*prefix, "--"]


@atexit.register
def _kill_living() -> None:
    # Where there is no parent-death signal (macOS), this is the last resort.
    for process in list(_LIVING):
        process.kill9()
