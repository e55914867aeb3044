"""Identifies processes, so that none is ever ended by its number alone.

The system reuses pids, but not a pid with its start time on one boot of one machine.
The functions read ``/proc``, or run ``ps`` without it. They block: call them in a
thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_MAX_ENVIRONMENT = 4 * 1024 * 1024


@cache
def this_host() -> str:
    """Returns the scope in which pids are comparable: a machine and its pid namespace."""
    name = socket.gethostname()[:200]
    try:
        return f"{name} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  not a path
    except OSError:
        return name


def this_server() -> str:
    """Returns an identifier of this process for other processes on this host."""
    return server_with(os.getpid())


def server_with(pid: int) -> str:
    return f"{pid}@{started(pid)}"


def is_server_alive(instance: str) -> bool:
    pid, _, start = instance.partition("@")
    return pid.isdecimal() and start != "" and started(int(pid)) == start


def started(pid: int) -> str:
    """Returns the start time of the process with this number; empty if there is none."""
    if pid <= 0:
        return ""
    if not _PROC.is_dir():
        return _started_by_ps(pid)
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return ""
    # The name in brackets may itself hold brackets and spaces.
    fields = line[line.rindex(b")") + 2 :].split()
    if fields[0] in {b"Z", b"X"}:  # a zombie: the process has ended
        return ""
    return f"{_boot()[:12]}/{fields[19].decode()}"


def end_recorded(pid: int, start: str, mark: str) -> bool:
    """Ends a dead server's command: the recorded process, and all processes with its mark.

    The number, the start time and the mark must all match. Returns whether a process was
    found alive.
    """
    if not mark:
        return False
    found = False
    if start and started(pid) == start and _carries(pid, mark):
        found = kill_exactly(pid, start)
    # Its descendants carry the same mark, which is random and unique.
    return kill_marked(mark) > 0 or found


def kill_exactly(pid: int, start: str) -> bool:
    """Kills a process, but never another that has taken over its number meanwhile.

    Returns whether the process was there.
    """
    opener = getattr(os, "pidfd_open", None)
    if opener is None or pid <= 1 or not start:
        return False
    try:
        handle = opener(pid)
    except OSError:
        return False
    try:
        if started(pid) != start:
            return False
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    finally:
        os.close(handle)


def _carries(pid: int, mark: str) -> bool:
    try:
        with (_PROC / str(pid) / "environ").open("rb") as file:
            return f"{PROCESS_MARK}={mark}".encode() in file.read(_MAX_ENVIRONMENT).split(b"\0")
    except OSError:
        return False


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "boot"


def _started_by_ps(pid: int) -> str:
    try:
        listed = subprocess.run(
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
            capture_output=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return listed.stdout.decode("ascii", errors="replace").strip()[:30]


_SUPERVISOR = b"supervise.py"
_RECORD_CHARS = 64  # the length of the database columns


def new_mark() -> str:
    return secrets.token_hex(8)


def recorded_start(pid: int, mark: str) -> str:
    """Returns the text to store, by which exactly this process is found again."""
    found = f"{started(pid)} {mark} {_host()}"
    return found if len(found) <= _RECORD_CHARS else f"{started(pid)} {mark}"


def is_held_elsewhere(pid: int, recorded: str) -> bool:
    """Returns whether the process is on another machine or under a living supervisor."""
    start, _, host = _parts(recorded)
    if host and host != _host():
        return True
    if not start or started(pid) != start:
        return False
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
        parent = int(line[line.rindex(b")") + 2 :].split()[1])
        return _SUPERVISOR in (_PROC / str(parent) / "cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return False


def end_leftover(pid: int, recorded: str) -> None:
    start, mark, host = _parts(recorded)
    if pid > 1 and mark and host in {"", _host()}:
        end_recorded(pid, start, mark)


def _parts(recorded: str) -> tuple[str, str, str]:
    start, mark, host, *_ = [*recorded.split(" "), "", "", ""]
    return start, mark, host


@cache
def _host() -> str:
    return hashlib.blake2b(this_host().encode(), digest_size=4).hexdigest()


PROCESS_MARK = "CRUSH_PROCESS_MARK"  # one command
SERVER_MARK = "CRUSH_SERVER_MARK"  # everything of one server
_SHORTEST_MARK = 16


def marked(mark: str) -> set[int]:
    """Returns the processes whose environment contains the mark, of a command or a server."""
    wanted = {f"{name}={mark}".encode() for name in (PROCESS_MARK, SERVER_MARK)}
    found: set[int] = set()
    if not _PROC.is_dir():
        return found
    for entry in os.scandir(_PROC):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError), Path(entry.path, "environ").open("rb") as file:
            if wanted & set(file.read(_MAX_ENVIRONMENT).split(b"\0")):
                found.add(int(entry.name))
    return found


def kill_marked(
    mark: str, *, within_seconds: float = 5.0, look: Callable[[str], set[int]] = marked
) -> int:
    """Kills all processes with ``mark`` until none is left. Returns how many there were.

    It spares this process and its ancestors, because a command of another server may have
    started this server.
    """
    if len(mark) < _SHORTEST_MARK:  # a short mark could match by accident
        raise ValueError("A process mark must be a long random text.")
    killed: set[int] = set()
    deadline = time.monotonic() + within_seconds
    empty = 0
    while empty < 2 and time.monotonic() < deadline:
        found = look(mark) - _lineage()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        killed |= found
        empty = 0 if found else empty + 1
        if found:
            time.sleep(0.005)
    return len(killed)


def _lineage() -> set[int]:
    pids: set[int] = set()
    pid = os.getpid()
    while pid > 1 and pid not in pids:
        pids.add(pid)
        try:
            line = (_PROC / str(pid) / "stat").read_bytes()
        except OSError:
            break
        pid = int(line[line.rindex(b")") + 2 :].split()[1])
    return pids
