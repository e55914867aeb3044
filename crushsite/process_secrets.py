"""Keeps the keys in a server's environment out of reach of the commands that it runs.

On Linux any process of the same user can read another's first environment and its
memory in ``/proc``. Python and the C library keep the variables; only the block
that the kernel shows is cleared.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from agents.tools.shell.reaper import PROCESS_MARK, SERVER_MARK

_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48  # of the fields behind the name in brackets: see proc(5)


def protect_process() -> None:
    """Before the first command is started. Does nothing where there is no ``/proc``."""
    if sys.platform != "linux" or not Path("/proc/self/stat").exists():
        return
    _clear_environment_block()
    # Nobody without CAP_SYS_PTRACE may look into the memory; commands of root do not have it.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _clear_environment_block() -> None:
    for name, value in list(os.environ.items()):
        os.putenv(name, value)  # the C library's copy moves out of the block
    line = Path("/proc/self/stat").read_bytes()
    fields = line[line.rindex(b")") + 2 :].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    if not 0 < start < end:
        return
    # A server that another server's command has started must still be found by its marks.
    marks = b"".join(
        os.fsencode(f"{name}={os.environ[name]}") + b"\0"
        for name in (PROCESS_MARK, SERVER_MARK)
        if name in os.environ
    )[: end - start]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, marks, len(marks))
