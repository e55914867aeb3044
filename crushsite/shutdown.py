"""From the signal to the end of the process: first in order, then at once.

The first SIGTERM or SIGINT asks for a stop, which lets runs come to the end of
a step. The second one ends the waiting. The process ends even when something
in it hangs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence

from workspaces.log import retries

logger = logging.getLogger(__name__)

# For everything after the drain: sockets, users' commands, MCP servers, the database.
STOPPING_SECONDS = 30.0
HURRIED_SECONDS = 10.0
DATABASE_SECONDS = 2.0  # how long what is left to be stored may wait for the database
FAILED = 1


class StopRequest:
    """What signals ask for. Lives in one event loop."""

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
        """Tells whoever started the process what it waits for."""
        if not waits_for or seconds <= 0:
            print("Stopping", flush=True)  # noqa: T201  for who started it
            return
        print(  # noqa: T201  the same
            f"Stopping: waiting up to {seconds:g} s for {' and '.join(waits_for)}. "
            "Press Ctrl-C again, or send SIGTERM again, to stop now.",
            flush=True,
        )

    def begin_end(self) -> None:
        """The waiting is over: from here on nothing may hold the process up for long."""
        retries.limit_for_process(DATABASE_SECONDS)
        seconds = HURRIED_SECONDS if self.hurried.is_set() else STOPPING_SECONDS
        # A thread: it must work when the event loop does not.
        self._timer = threading.Timer(seconds, _end_hard, [seconds])
        self._timer.daemon = True
        self._timer.start()


def _end_hard(seconds: float) -> None:
    print(  # noqa: T201  the log may be what hangs
        f"The stop was not complete after {seconds:g} s: ending at once. What was accepted is kept.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(FAILED)
