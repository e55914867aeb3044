"""Finds processes by the mark in their environment, and ends them.

The second line behind the supervisor: for a supervisor that was killed from
outside, and for a server's start after a crash of the whole machine's session.
Needs ``/proc``; elsewhere it finds nothing. Blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

PROCESS_MARK = "CRUSH_PROCESS_MARK"  # one command
SERVER_MARK = "CRUSH_SERVER_MARK"  # everything of one server
_MAX_ENVIRONMENT = 4 * 1024 * 1024
_SHORTEST_MARK = 16
_PROC = Path("/proc")


def marked(mark: str) -> set[int]:
    """The living processes whose environment carries the mark, as the command's or the server's."""
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
    """Kill every process that carries ``mark``, again until none is left; how many there were.

    This process and its ancestors are spared: a server may itself have been
    started by a command of another.
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
