"""How a long-lived process of ours runs Python: its event loop, its memory, its secrets, its end.

The first SIGTERM or SIGINT requests a stop, which lets runs finish their step. The second one ends
the wait. A timer ends the process even when something in it hangs.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

from agents.tools.shell.identity import PROCESS_MARK, SERVER_MARK
from workspaces.log import deadlines

# For everything after the drain: sockets, users' commands, MCP servers, the database.
STOPPING_SECONDS = 30.0
HURRIED_SECONDS = 10.0
DATABASE_SECONDS = 2.0  # how long the last writes may wait for the database
FAILED = 1


def run(main: Coroutine[object, object, None]) -> None:
    """Runs ``main`` to its end in a loop of its own: uvloop's, where it can be imported.

    A word costs a read, a wake-up and a write. In the standard loop most of that is Python code: a
    word on the WebSocket takes 100 µs of processor time there, and 70 µs with uvloop
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


def shorten_turns_of_threads() -> None:
    """Lets the event loop go on sooner while another thread, like the writer's, runs Python code.

    It wakes 4.4 ms late instead of 8.7 ms (`python -m tests.bench.bypasses switch-interval`).
    """
    sys.setswitchinterval(0.001)


def freeze_modules() -> None:
    """Keeps the collector away from what is loaded now.

    A full collection stops the loop for 120 ms if it visits the loaded modules
    (`python -m tests.bench.bypasses collector-pause`).
    """
    gc.collect()
    gc.freeze()


# Of glibc's malloc.h.
M_MMAP_THRESHOLD = -3
LARGE_BLOCK_BYTES = 1024 * 1024


def return_large_blocks() -> None:
    """Gives each large block back to the system as soon as it is freed. Call it early.

    glibc's malloc starts like this, but raises its threshold for mapped blocks, up to 32 MiB, when
    it frees such a block. From then on bodies and pictures come from the heaps of the threads,
    whose holes stay resident: 200 bodies with a picture of 3.5 MB leave 55 MB, and 2 MB with a fixed
    threshold (`python -m tests.bench.bypasses large-blocks`). Does nothing without glibc.
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
    # Only a process with CAP_SYS_PTRACE may now read the memory; root's commands lack it.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _clear_environment_block() -> None:
    for name, value in list(os.environ.items()):
        os.putenv(name, value)  # the C library's copy moves out of the block
    line = Path("/proc/self/stat").read_bytes()
    fields = line[line.rindex(b")") + 2 :].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    if not 0 < start < end:
        return
    # Keep the marks: another server finds this one by them if its command has started it.
    marks = b"".join(
        os.fsencode(f"{name}={os.environ[name]}") + b"\0"
        for name in (PROCESS_MARK, SERVER_MARK)
        if name in os.environ
    )[: end - start]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, marks, len(marks))


# -- the stop


class StopRequest:
    """The stop that signals request. Belongs to one event loop."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.hurried = asyncio.Event()
        self._timer: threading.Timer | None = None

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.signal)

    def signal(self) -> None:
        if self.requested.is_set():
            self.hurried.set()
        self.requested.set()

    def announce(self, waits_for: Sequence[str], *, seconds: float) -> None:
        """Prints what the stop waits for."""
        if not waits_for or seconds <= 0:
            print("Stopping", flush=True)  # noqa: T201  for the user
            return
        print(  # noqa: T201  the same
            f"Stopping: waiting up to {seconds:g} s for {' and '.join(waits_for)}. "
            "Press Ctrl-C again, or send SIGTERM again, to stop now.",
            flush=True,
        )

    def begin_end(self) -> None:
        """Ends the wait: from here on nothing may delay the exit for long."""
        deadlines.limit_for_process(DATABASE_SECONDS)
        seconds = HURRIED_SECONDS if self.hurried.is_set() else STOPPING_SECONDS
        # A thread, because the event loop may hang.
        self._timer = threading.Timer(seconds, _end_hard, [seconds])
        self._timer.daemon = True
        self._timer.start()


def _end_hard(seconds: float) -> None:
    print(  # noqa: T201  the log may be what hangs
        f"The process did not stop within {seconds:g} s and ends now. Accepted prompts are kept.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(FAILED)
