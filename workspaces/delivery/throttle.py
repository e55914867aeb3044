"""Decides when to flush: at the end of this turn of the loop, or later when it has just flushed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class Pace:
    """Calls ``flush`` soon after ``soon``, at least an interval after the last time.

    What arrives meanwhile leaves in one write: at once while that is cheap, less
    often when it is dear. An interval of 0 overrides a longer wait, and makes nobody
    wait after it: the first word follows its message's start at once.
    """

    __slots__ = ("_flush", "_handle", "_interval", "_is_paced", "_last", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, flush: Callable[[], None]) -> None:
        self._loop = loop
        self._flush = flush
        self._handle: asyncio.Handle | None = None
        # The shortest that anybody wants since the last flush.
        self._interval = math.inf
        self._last = 0.0  # the last paced flush
        self._is_paced = False

    def soon(self, interval: float) -> None:
        if interval > 0:
            self._is_paced = True
        if interval >= self._interval:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._interval = interval
        due = self._last + interval
        if due <= self._loop.time():
            self._handle = self._loop.call_soon(self._run)
        else:
            self._handle = self._loop.call_at(due, self._run)

    def _run(self) -> None:
        self._interval = math.inf
        if self._is_paced:
            self._last = self._loop.time()
            self._is_paced = False
        self._flush()
