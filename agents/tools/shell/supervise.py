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
``kept``, ``refused``, ``exceeded LIMIT``, ``exited CODE``, ``ended LEFT``.

A background command may outlive its server: the server sends an order with two more
descriptors (``kept.py``). Then the byte ``e`` means "end it", and a closed socket means
that the server is gone. The supervisor keeps the command until another server takes it.
The starting process lives as long as such a supervisor.
"""

import contextlib
import gc
import os
import signal
import socket
import sys
import time

if __name__ == "__main__":  # isolated: nothing of the project is on Python's path
    sys.path.insert(0, __file__.rpartition("/agents/")[0])

from agents.tools.shell.kept import END, KEEP, CommandHolder, KeepOrder
from agents.tools.shell.process_tree import (
    LINUX,
    PARENT_GONE,
    become_subreaper,
    below,
    follow_parent,
    freeze_and_kill,
    parents,
    send_signal,
    wait_readable,
    wakeups,
)
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
    drop_inspection,
    limit_file_size,
)

MAX_REQUEST = 16 * 1024 * 1024
LEAVE_SECONDS = 0.2  # for what a command left to end by itself: `cmd > >(tee log)`
GIVE_UP_SECONDS = 10.0  # for what cannot be killed: another user's, or stuck in the kernel
SUPERVISOR_SECONDS = 3.0  # for the supervisors to end their commands when the server is gone
SERVER_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Notifies a supervisor that the sampler found its command above a limit.
LIMIT_SIGNALS = {MEMORY: signal.SIGUSR1, PROCESSES: signal.SIGUSR2}
ABANDONED = "The command was ended: its server had stopped, and no server took it over in time."


class Command:
    """One running command and all that came of it."""

    def __init__(
        self, pid: int, control: socket.socket, wakeup: int, exceeded: list[str], kept: int
    ) -> None:
        self.pid = pid
        self.control: socket.socket | None = control  # ``None`` while no server has the command
        self.wakeup = wakeup
        self.exceeded = exceeded  # limits, as signals report them
        self.kept = kept  # notifies the starting process
        self.holder: CommandHolder | None = None
        self.is_abandoned = False  # it ended because no server took it
        self.code: int | None = None

    def report(self, line: str) -> None:
        with contextlib.suppress(OSError):
            if self.control is not None:
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
            if not self.listen(rest):
                return False

    def listen(self, seconds: float | None) -> bool:
        """Wait for the server, or keep the command without one; false if it must end."""
        watched = [] if self.control is None else [self.control.fileno()]
        if self.holder is not None:
            watched += self.holder.descriptors()
            pauses = (seconds, self.holder.pause(time.monotonic()))
            seconds = min((each for each in pauses if each is not None), default=None)
        ready = wait_readable(watched, seconds, self.wakeup)
        if self.control is not None:
            return self.control.fileno() not in ready or self.receive_order(self.control)
        if self.holder is not None:
            now = time.monotonic()
            self.control = self.holder.work(ready, now)
            self.is_abandoned = self.control is None and self.holder.is_abandoned(now)
        return not self.is_abandoned

    def receive_order(self, control: socket.socket) -> bool:
        """Take what the server sends; false if the command must end."""
        try:
            message, descriptors, _flags, _address = socket.recv_fds(control, 4096, 2)
        except OSError:
            message, descriptors = b"", []
        if not message and self.holder is not None:
            control.close()
            self.control = None
            self.holder.begin(time.monotonic())
            return True
        if not message.startswith(KEEP) or len(descriptors) != 2 or self.holder is not None:
            return False
        try:
            self.holder = CommandHolder(KeepOrder.decode(message.partition(b"\n")[0]), *descriptors)
            os.write(self.kept, b"%d\n" % os.getpid())
        except (OSError, ValueError):
            self.holder = None
        self.report("refused" if self.holder is None else "kept")
        return not message.endswith(END)

    def finish(self, limits: TreeLimits) -> None:
        """Report the end, or store it where no server is left."""
        code = 137 if self.code is None else self.code
        exceeded = list(filter(None, self.exceeded))
        if self.holder is not None:
            if self.control is not None:
                self.listen(0.0)
            note = ABANDONED if self.is_abandoned else "".join(map(limits.sentence, exceeded[:1]))
            self.holder.finish(code, note)
        for limit in exceeded:
            self.report(f"exceeded {limit}")
        self.report(f"exited {code}")

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


def supervise(
    control: socket.socket, stdio: list[int], limits: TreeLimits, groups: str, kept: int
) -> None:
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
    command = Command(pid, control, wakeup, exceeded, kept)
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
    command.finish(limits)
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
        # The supervisors of kept commands write their numbers here.
        self.keeping, self.kept = os.pipe()
        os.set_blocking(self.keeping, False)

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
                supervise(control, descriptors[1:], limits, self.groups, self.kept)
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
        """Until the commands are gone. Kept ones live on, and their limits with them."""
        self.server.close()
        kept: set[int] = set()
        deadline = time.monotonic() + GIVE_UP_SECONDS
        kill_at = time.monotonic() + SUPERVISOR_SECONDS
        while not reap_supervisors(self.supervisors):
            with contextlib.suppress(BlockingIOError):
                kept |= set(map(int, os.read(self.keeping, 65_536).split()))
            self.sampled &= self.supervisors
            self.end_what_exceeds()
            others = self.supervisors - kept
            if time.monotonic() > deadline and not self.supervisors & kept:
                break
            if time.monotonic() > kill_at:  # a command stopped its supervisor: do its work here
                for pid in others:
                    send_signal(pid, signal.SIGKILL)
            pause = self.sampler.pause(time.monotonic(), is_watching=bool(self.sampled))
            wait_readable([], 0.2 if others else pause, self.wakeup)


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
