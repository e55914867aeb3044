"""The process that starts commands and ends everything they leave behind.

Run by path with ``python -I -S``: the standard library's smallest modules only,
nothing of this project. The server sends its requests over a socket; each command gets a
supervisor, forked from here in about a millisecond. On Linux a supervisor is a
*child subreaper*: each process that a command orphans (``setsid``, a double fork, an
emptied environment) becomes the supervisor's child, so the kernel itself reports
when nothing is left. It ends them when the command ends, when the server requests it,
and when the server dies, which closes the socket. On macOS only the command's
process group is ended.

Arguments: the server's socket and the limits of a command (``tree_limits.py``).
From the server: one byte (whether the limits apply) with four descriptors
(control, stdin, stdout, stderr); then, on the control socket, an 8-byte length
and NUL-separated fields: working folder, number of arguments, arguments,
environment. Closing its side of the control socket means "end it". The
supervisor answers in lines: ``ready OWN-PID``, ``started PID``, ``failed WHY``,
``exceeded LIMIT``, ``exited CODE``, ``ended LEFT``.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time

if __name__ == "__main__":  # isolated: nothing of the project is on Python's path
    sys.path.insert(0, __file__.rpartition("/agents/")[0])

from agents.tools.shell.tree_limits import (
    FILE_SIZE,
    LIMITED,
    MEMORY,
    NO_LIMITS,
    PROCESSES,
    CommandGroup,
    Sampler,
    TreeLimits,
    delegated_group,
    descendants,
    drop_inspection,
    limit_file_size,
)

LINUX = sys.platform == "linux"
PR_SET_CHILD_SUBREAPER = 36
PR_SET_PDEATHSIG = 1
MAX_REQUEST = 16 * 1024 * 1024
LEAVE_SECONDS = 0.2  # for what a command left to end by itself: `cmd > >(tee log)`
GIVE_UP_SECONDS = 10.0  # for what cannot be killed: another user's, or stuck in the kernel
SUPERVISOR_SECONDS = 3.0  # for the supervisors to end their commands when the server is gone
SERVER_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Notifies a supervisor that the sampler found its command above a limit.
LIMIT_SIGNALS = {MEMORY: signal.SIGUSR1, PROCESSES: signal.SIGUSR2}
PARENT_GONE = signal.SIGALRM  # the process that forked it is gone


def become_subreaper() -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def follow_parent(parent: int) -> None:
    """Who watches the limits must not be killed by the command that is watched: then the
    supervisor ends its command."""
    _prctl(PR_SET_PDEATHSIG, PARENT_GONE)
    if LINUX and os.getppid() != parent:
        os._exit(0)


def _prctl(option: int, value: int) -> None:
    if not LINUX:
        return
    import ctypes  # noqa: PLC0415  loaded before the first fork, shared by all

    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def wakeups() -> int:
    """A descriptor that becomes readable whenever a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def wait_readable(descriptors: list[int], seconds: float | None, wakeup: int) -> list[int]:
    ready = select.select([*descriptors, wakeup], [], [], seconds)[0]
    if wakeup in ready:
        with contextlib.suppress(BlockingIOError):
            os.read(wakeup, 4096)
        ready.remove(wakeup)
    return ready


def parents() -> dict[int, int]:
    """Every process and its parent; empty where there is no /proc."""
    found: dict[int, int] = {}
    if not LINUX:
        return found
    for name in os.listdir("/proc"):  # noqa: PTH208  pathlib would double this process's size
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):
            descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY)
            try:
                line = os.read(descriptor, 1024)
            finally:
                os.close(descriptor)
            # The name in brackets may itself hold brackets and spaces.
            found[int(name)] = int(line[line.rindex(b")") + 2 :].split()[1])
    return found


def below(roots: set[int]) -> set[int]:
    """Every process under these, without these."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    return descendants(roots, children)


def send_signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def freeze_and_kill(roots: set[int], *, with_roots: bool) -> None:
    """Stop the whole tree first: what is stopped cannot fork while it is being counted."""
    frozen: set[int] = set()
    for _ in range(50):
        fresh = (below(roots) | (roots if with_roots else set())) - frozen
        if not fresh:
            break
        for pid in fresh:
            send_signal(pid, signal.SIGSTOP)
        frozen |= fresh
    for pid in frozen:
        send_signal(pid, signal.SIGKILL)


class Command:
    """One running command and all that came of it."""

    def __init__(self, pid: int, control: socket.socket, wakeup: int, exceeded: list[str]) -> None:
        self.pid = pid
        self.control = control
        self.wakeup = wakeup
        self.exceeded = exceeded  # limits, as signals report them
        self.code: int | None = None

    def report(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self.control.sendall(line.encode("utf-8", "replace") + b"\n")

    def reap(self) -> bool:
        """Collect who ended; true when no child is left, so nothing of the command lives."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.pid:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code

    def wait(self, seconds: float | None) -> bool:
        """Until the command ends (true), or the server stops it or its time is up (false)."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            gone = self.reap()
            if gone or (seconds is None and self.code is not None):
                return True
            rest = None if deadline is None else deadline - time.monotonic()
            if self.exceeded or (rest is not None and rest <= 0):
                return False
            if wait_readable([self.control.fileno()], rest, self.wakeup):
                return False

    def end(self) -> int:
        """Kill all that is left; how many could not be killed."""
        if self.code is None or not LINUX:
            # A group without its leader keeps its number while one member lives.
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + GIVE_UP_SECONDS
        pause = 0.002
        while not self.reap():
            if time.monotonic() > deadline:
                return max(1, len(below({os.getpid()})))
            wait_readable([], pause, self.wakeup)
            if self.reap():
                break
            freeze_and_kill({os.getpid()}, with_roots=False)
            pause = min(pause * 2, 0.2)
        return 0


def receive(control: socket.socket, size: int) -> bytes:
    chunks: list[bytes] = []
    while size:
        chunk = control.recv(min(size, 1 << 20))
        if not chunk:
            os._exit(0)  # the server closed the socket before its request was complete
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def execute(
    stdio: list[int],
    fields: list[bytes],
    failure: int,
    limits: TreeLimits,
    group: CommandGroup | None,
) -> None:
    """In the child: become the command. Only returns by exiting."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        reset = (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, PARENT_GONE)
        for number in (*SERVER_SIGNALS, *reset, *LIMIT_SIGNALS.values()):
            signal.signal(number, signal.SIG_DFL)
        if group is not None:
            group.join()
        limit_file_size(limits)
        for target, descriptor in enumerate(stdio):
            os.dup2(descriptor, target)
        folder, count = fields[0], int(fields[1])
        argv = fields[2 : 2 + count]
        environment = dict(entry.split(b"=", 1) for entry in fields[2 + count :])
        os.chdir(folder)
        os.execve(argv[0], argv, environment)  # noqa: S606  running commands is its work
    except OSError as error:
        os.write(failure, (error.strerror or "cannot be executed").encode())
    finally:
        os._exit(127)


def supervise(control: socket.socket, stdio: list[int], limits: TreeLimits, groups: str) -> None:
    become_subreaper()
    wakeup = wakeups()
    # Only after this the server sends the command, so that nothing is ever run twice.
    control.sendall(b"ready %d\n" % os.getpid())
    size = int.from_bytes(receive(control, 8), "big")
    if size > MAX_REQUEST:
        os._exit(0)
    fields = receive(control, size).split(b"\0")
    exceeded: list[str] = []
    signal.signal(PARENT_GONE, lambda *_: exceeded.append(""))
    for limit, number in LIMIT_SIGNALS.items():
        signal.signal(number, lambda *_, limit=limit: exceeded.append(limit))
    group = CommandGroup.make(groups, limits) if groups and limits != NO_LIMITS else None
    read_end, write_end = os.pipe()
    pid = fork()
    if pid < 0:
        control.sendall(b"failed The system has no room for another process\n")
        os._exit(0)
    if pid == 0:
        execute(stdio, fields, write_end, limits, group)
    os.close(write_end)
    for descriptor in stdio:
        os.close(descriptor)
    why = b"".join(iter(lambda: os.read(read_end, 4096), b""))  # closed by a successful exec
    command = Command(pid, control, wakeup, exceeded)
    if why:
        command.report(f"failed {why.decode('utf-8', 'replace')}")
        os._exit(0)
    command.report(f"started {pid}")
    if command.wait(None):
        command.wait(LEAVE_SECONDS)
    left = command.end()
    if group is not None:
        exceeded.append(group.exceeded())
        group.remove()
    if command.code == 128 + signal.SIGXFSZ:
        exceeded.append(FILE_SIZE)
    for limit in filter(None, exceeded):
        command.report(f"exceeded {limit}")
    command.report(f"exited {137 if command.code is None else command.code}")
    command.report(f"ended {left}")


def reap_supervisors(supervisors: set[int]) -> bool:
    """Collect ended supervisors; true when no child is left.

    A supervisor that was killed from outside leaves its command to this process,
    which is a subreaper too: a child that is no supervisor is an orphan to end.
    """
    while True:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            break
        supervisors.discard(pid)
    me = os.getpid()
    orphans = {pid for pid, parent in parents().items() if parent == me} - supervisors
    if orphans:
        freeze_and_kill(orphans, with_roots=True)
    return False


class Starter:
    """Forks a supervisor for each command and watches what the commands use."""

    def __init__(self, server: socket.socket, limits: TreeLimits) -> None:
        self.server = server
        self.limits = limits
        self.groups = delegated_group() if LINUX else ""
        self.wakeup = wakeups()
        self.supervisors: set[int] = set()
        self.sampled: set[int] = set()
        self.sampler = Sampler(limits)

    def run(self) -> None:
        """Until the server is gone."""
        while True:
            pause = self.sampler.pause(time.monotonic(), is_watching=bool(self.sampled))
            has_request = wait_readable([self.server.fileno()], pause, self.wakeup)
            reap_supervisors(self.supervisors)
            self.sampled &= self.supervisors
            self.end_what_exceeds()
            if has_request and not self.start():
                break
        self.end()

    def start(self) -> bool:
        """Take one request; false when the server is gone."""
        message, descriptors, _flags, _address = socket.recv_fds(self.server, 1, 4)
        if not message:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        limits = self.limits if message == LIMITED else NO_LIMITS
        starter = os.getpid()
        pid = fork() if len(descriptors) == 4 else -1
        if pid == 0:
            self.server.close()
            os.close(self.wakeup)
            try:
                follow_parent(starter)
                control = socket.socket(fileno=descriptors[0])
                supervise(control, descriptors[1:], limits, self.groups)
            finally:
                os._exit(0)
        if pid > 0:
            self.supervisors.add(pid)
            if limits != NO_LIMITS and LINUX and not self.groups:
                self.sampled.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def end_what_exceeds(self) -> None:
        for pid, limit in self.sampler.over(time.monotonic(), self.sampled).items():
            send_signal(pid, LIMIT_SIGNALS[limit])  # it reports the limit
            # Its command may have stopped it, and memory does not wait.
            freeze_and_kill({pid}, with_roots=False)
            send_signal(pid, signal.SIGCONT)

    def end(self) -> None:
        deadline = time.monotonic() + GIVE_UP_SECONDS
        kill_at = time.monotonic() + SUPERVISOR_SECONDS
        while not reap_supervisors(self.supervisors) and time.monotonic() < deadline:
            if time.monotonic() > kill_at:  # a command stopped its supervisor: do its work here
                for pid in self.supervisors:
                    send_signal(pid, signal.SIGKILL)
            wait_readable([], 0.2, self.wakeup)


def serve(server: socket.socket, limits: TreeLimits) -> None:
    become_subreaper()
    if LINUX:
        drop_inspection()
    # A supervisor ignores the sampler's signals, too, until it has a command.
    for number in (*SERVER_SIGNALS, *LIMIT_SIGNALS.values()):
        signal.signal(number, signal.SIG_IGN)
    starter = Starter(server, limits)
    gc.disable()
    gc.freeze()  # keeps the pages shared with the forks
    starter.run()


def fork() -> int:
    try:
        return os.fork()
    except OSError:
        return -1  # no room for another process: closing the descriptors notifies the server


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), TreeLimits.decode(sys.argv[2]))
