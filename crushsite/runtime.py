"""How a long-lived process of ours runs Python: its event loop, its memory, its secrets."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

from agents.tools.shell.reaper import PROCESS_MARK, SERVER_MARK


def run(main: Coroutine[object, object, None]) -> None:
    """Runs ``main`` to its end in a loop of its own: uvloop's, where it can be imported.

    A word costs a read, a wake-up and a write. In the standard loop most of that is Python code: a
    word on the WebSocket takes 90 µs of processor time there, and 75 µs with uvloop
    (`python -m tests.bench.servers`).
    """
    with asyncio.Runner(loop_factory=_quickest()) as runner:
        runner.run(main)


def _quickest() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415  not on every platform
    except ImportError:
        return asyncio.SelectorEventLoop
    return uvloop.new_event_loop


# Of glibc's malloc.h.
M_MMAP_THRESHOLD = -3
LARGE_BLOCK_BYTES = 1024 * 1024


def return_large_blocks() -> None:
    """Gives each large block back to the system as soon as it is freed. To be called early.

    glibc's malloc begins so, but raises the size of what it maps by itself to 32 MiB with the
    first such block that is freed. From then on bodies and pictures come from the heaps of the
    threads, whose holes stay resident: 15 prompts with a picture of 3.5 MB left 270 MB that
    nobody used, and leave 30 MB with a fixed size. Elsewhere than on glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48  # of the fields behind the name in brackets: see proc(5)


def protect_process() -> None:
    """Keeps the keys in the environment out of reach of the commands that the server runs.

    On Linux any process of the same user can read another's first environment and its memory in
    ``/proc``. Python and the C library keep the variables; only the block that the kernel shows
    is cleared. Call it before the first command starts. Without ``/proc`` it does nothing.
    """
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
