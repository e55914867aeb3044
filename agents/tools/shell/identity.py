"""Which process is which, so that nothing is ever ended by a number alone.

A pid is used again; a pid with its start time, on one boot of one machine, is
not. Reads ``/proc`` where there is one, else asks ``ps``. Blocks: call it in a
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
from functools import cache
from pathlib import Path

from agents.tools.shell.reaper import PROCESS_MARK, kill_marked

_PROC = Path("/proc")
_MAX_ENVIRONMENT = 4 * 1024 * 1024


@cache
def this_host() -> str:
    """Where pids mean the same: one machine, and there one container."""
    name = socket.gethostname()[:200]
    try:
        return f"{name} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  it is no path
    except OSError:
        return name


def this_server() -> str:
    """This very process, as others on this host can look for it."""
    pid = os.getpid()
    return f"{pid}@{started(pid)}"


def is_server_alive(instance: str) -> bool:
    pid, _, start = instance.partition("@")
    return pid.isdecimal() and start != "" and started(int(pid)) == start


def started(pid: int) -> str:
    """When the process with this number started; empty when there is none."""
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
    if fields[0] in {b"Z", b"X"}:  # it has ended; only its number is left
        return ""
    return f"{_boot()[:12]}/{fields[19].decode()}"


def end_recorded(pid: int, start: str, mark: str) -> bool:
    """Ends what a dead server left of a command: the recorded process, and what carries its mark.

    Number, start time and mark must all be the recorded ones. Whether it was found alive.
    """
    if not mark:
        return False
    found = False
    if start and started(pid) == start and _carries(pid, mark):
        found = kill_exactly(pid, start)
    # What it started carries the same mark, which is random and was given to nobody else.
    return kill_marked(mark) > 0 or found


def kill_exactly(pid: int, start: str) -> bool:
    """Never another that took over the number between looking and killing. Whether it was there."""
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
        told = subprocess.run(
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
            capture_output=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.decode("ascii", errors="replace").strip()[:30]


_SUPERVISOR = b"supervise.py"
_RECORD_CHARS = 64  # as long as the columns for it


def new_mark() -> str:
    return secrets.token_hex(8)


def recorded_start(pid: int, mark: str) -> str:
    """What is written down to find this very process again."""
    found = f"{started(pid)} {mark} {_host()}"
    return found if len(found) <= _RECORD_CHARS else f"{started(pid)} {mark}"


def is_held_elsewhere(pid: int, recorded: str) -> bool:
    """It is on another machine, or lives under the supervisor of some living server."""
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
