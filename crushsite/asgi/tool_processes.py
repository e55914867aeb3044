"""Whether a request comes from a tool of this server: a process that descends from it.

Commands, language servers, MCP servers and hooks run as the same user as the server, so a user
number alone would let a model answer its own permission request. All of them descend from the
server, also when they become daemons: their supervisor adopts them. A kept command outlives its
server, so it descends from the supervisors alone: these name their data folder. What leaves the
tree (cron, ``systemd-run``, ``ssh``) is not found; SECURITY.md names that.

The functions read ``/proc``, or run ``ps`` without it. They block: call them in a thread.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

from crushsite.asgi.peer import Peer, peer_of_tcp

_PROC = Path("/proc")
_ROUNDS = 5  # a tree that grows in each of them counts as a match
_PS_SECONDS = 5.0
_SUPERVISOR = b"/agents/tools/shell/supervise.py"
_LONGEST_LINE = 16 * 1024  # of a supervisor: it contains three paths


def is_tool(peer: Peer, servers: Collection[int], folder: Path) -> bool:
    """Whether the process at the other end is a tool of these server processes.

    Or of an earlier one on the data folder ``folder``, whose supervisor has kept it. A process that
    has ended, or that cannot be examined, counts as a tool.
    """
    if peer.pid == 0:
        return False  # a process of an outer namespace, which is none of ours
    roots = {*servers, *supervisors(folder)}
    if peer.pid is not None:
        # Not without all roots: a tool can look like a supervisor, but not like a server.
        return not _is_alive(peer.pid) or peer.pid in descendants(roots) - set(servers)
    return _holds(peer, servers, roots) or not _is_still_open(peer)


def supervisors(folder: Path) -> set[int]:
    """Returns the supervisors of commands of servers on this data folder, also of ended servers.

    Any process can look like one: the result may only take rights away.
    """
    found: set[int] = set()
    if not _PROC.is_dir():
        return found  # no command is kept there
    with os.scandir(_PROC) as entries:
        for entry in entries:
            if entry.name.isdecimal() and (named := _folder_of_supervisor(entry.path)):
                try:
                    is_ours = os.path.samefile(named, folder)  # noqa: PTH121  bytes
                except OSError:
                    is_ours = True  # one of them was moved, maybe by a tool
                if is_ours:
                    found.add(int(entry.name))
    return found


def _folder_of_supervisor(process: str) -> bytes:
    """Returns the data folder that a supervisor of this user names; empty for other processes."""
    try:
        with open(f"{process}/cmdline", "rb") as file:  # noqa: PTH123  read for every process
            line = file.read(_LONGEST_LINE)
        # As ``Supervisor.ensure_started`` starts it: the script, its socket, limits, the folder.
        _, _, _, script, _, _, folder, *_ = line.split(b"\0")
        if not script.endswith(_SUPERVISOR):
            return b""
        status = Path(process, "status").read_bytes()
        user = status.partition(b"\nUid:")[2].split(maxsplit=1)[0]
    except (OSError, ValueError, IndexError):
        return b""
    return folder if int(user) == os.getuid() else b""


def descendants(roots: Iterable[int]) -> set[int]:
    """Returns the processes below ``roots``, without the roots."""
    children = defaultdict(list)
    for pid, parent in _parents():
        children[parent].append(pid)
    found: set[int] = set()
    left = list(roots)
    while left:
        for pid in children.get(left.pop(), ()):
            if pid not in found:
                found.add(pid)
                left.append(pid)
    return found


def _holds(peer: Peer, servers: Collection[int], roots: Collection[int]) -> bool:
    """Whether a descendant has the peer's socket open."""
    wanted = f"socket:[{peer.inode}]"
    seen: set[int] = set(servers)
    for _ in range(_ROUNDS):
        # A process may pass its socket to a new child and end, so look again for new ones.
        new = descendants(roots) - seen
        if not new:
            return False
        if any(_has_open(pid, wanted) for pid in new):
            return True
        seen |= new
    return True


def _has_open(pid: int, wanted: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        with os.scandir(folder) as entries:
            return any(_target(entry.path) == wanted for entry in entries)
    except (FileNotFoundError, ProcessLookupError):
        return False  # it has ended
    except OSError:
        return not _is_zombie(pid)


def _target(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115  not a path
    except OSError:
        return ""  # closed meanwhile


def _is_still_open(peer: Peer) -> bool:
    if peer.ends is None:
        return False
    again = peer_of_tcp(*peer.ends)
    return again is not None and again.inode == peer.inode


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    fields = _stat(str(pid))
    return fields is None or fields[0] in {b"Z", b"X"}


def _parents() -> Iterable[tuple[int, int]]:
    if not _PROC.is_dir():
        yield from _parents_by_ps()
        return
    with os.scandir(_PROC) as entries:
        for entry in entries:
            if entry.name.isdecimal() and (fields := _stat(entry.name)) is not None:
                yield int(entry.name), int(fields[1])


def _stat(pid: str) -> list[bytes] | None:
    """The fields behind the name, which may itself hold brackets: the state, the parent, ..."""
    if not _PROC.is_dir():
        return [b"R", b"0"]
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  read for every process
            line = file.read()
    except OSError:
        return None
    return line[line.rindex(b")") + 2 :].split(b" ", 2)


def _parents_by_ps() -> Iterable[tuple[int, int]]:
    found = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid="],
        capture_output=True,
        timeout=_PS_SECONDS,
        check=True,
    )
    for line in found.stdout.splitlines():
        pid, parent = line.split()
        yield int(pid), int(parent)
