"""Ends a language server that outlived the server which started it.

Normally its supervisor ends it with that server; this is for a supervisor that
was killed as well. Beside its number a process is known by its start time and
its mark. Blocks: call it in a thread.
"""

from __future__ import annotations

from pathlib import Path

from agents.tools.shell.identity import end_recorded, started

_PROC = Path("/proc")
_SUPERVISOR = b"supervise.py"


def recorded_start(pid: int, mark: str) -> str:
    """What is written down to find this very process again."""
    return f"{started(pid)} {mark}"


def is_held_elsewhere(pid: int, recorded: str) -> bool:
    """It lives, and so does the supervisor of some living server that holds it."""
    start, _, _ = recorded.partition(" ")
    if not start or started(pid) != start:
        return False
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
        parent = int(line[line.rindex(b")") + 2 :].split()[1])
        return _SUPERVISOR in (_PROC / str(parent) / "cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return False


def end_leftover(pid: int, recorded: str) -> None:
    start, _, mark = recorded.partition(" ")
    if pid > 1 and mark:
        end_recorded(pid, start, mark)
