"""Answers requests whose write has not begun long after its deadline: the database hangs.

The writer's thread sits in a statement then and can answer nobody. Lives in the
loop of those who wait.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from workspaces.log.blocked_writes import Write
from workspaces.log.errors import DatabaseUnreachable

HANGS_SECONDS = 10.0  # after the deadline


class WaitingRequests:
    def __init__(self, gate: threading.Lock, *, hangs_seconds: float) -> None:
        """``gate`` guards the marks of writes that have begun or are withdrawn."""
        self._gate = gate
        self._hangs_seconds = hangs_seconds
        self._writes: set[Write[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop, self._timer = loop, None
        self._writes.clear()

    def add(self, write: Write[Any]) -> None:
        self._writes.add(write)
        if self._timer is None and self._loop is not None:
            # One timer for all: one for each would cost more than the rest of a write.
            seconds = min(self._hangs_seconds, 1.0)
            self._timer = self._loop.call_later(seconds, self._look)

    def discard(self, write: Write[Any]) -> None:
        self._writes.discard(write)

    def _look(self) -> None:
        now = time.monotonic()
        self._timer = None
        for write in list(self._writes):
            if write.until is not None and now >= write.until + self._hangs_seconds:
                self._withdraw(write)
            else:
                self.add(write)

    def _withdraw(self, write: Write[Any]) -> None:
        """What has begun may yet be committed, so it is awaited."""
        with self._gate:
            if write.is_begun or write.answer.done():
                return
            write.is_withdrawn = True
        write.answer.set_exception(DatabaseUnreachable())
