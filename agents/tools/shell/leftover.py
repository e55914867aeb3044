"""Ends a server of tools that outlived the server which started it.

Normally its supervisor ends it with that server; this is for a supervisor that
was killed as well. Beside its number a process is known by its start time and
its mark. Blocks: call it in a thread.
"""

from __future__ import annotations

import hashlib
import secrets
from functools import cache
from pathlib import Path

from agents.tools.shell.identity import end_recorded, started, this_host

_PROC = Path("/proc")
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
