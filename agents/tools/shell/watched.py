"""A command's output as it grows, and the one who is told of it, at most so often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agents.tools.shell.output import BoundedOutput


class WatchedOutput:
    """A sink. Lives in one event loop; however much comes in, telling costs the same."""

    def __init__(self, limit_bytes: int) -> None:
        self.kept = BoundedOutput(limit_bytes)
        self._loop = asyncio.get_running_loop()
        self._tell: Callable[[], None] | None = None
        self._every = 0.0
        self._next_at = 0.0
        self._waiting: asyncio.TimerHandle | None = None

    def watch(self, tell: Callable[[], None], *, every_seconds: float) -> None:
        """From now on this one is told that there is more; who was told before is not."""
        self.unwatch()
        self._tell = tell
        self._every = every_seconds
        if self.kept.total:
            self._soon()

    def unwatch(self) -> None:
        self._tell = None
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def feed(self, chunk: bytes) -> bool:
        self.kept.feed(chunk)
        if self._waiting is None and self._tell is not None:
            self._soon()
        return True

    def _soon(self) -> None:
        delay = max(0.0, self._next_at - self._loop.time())
        self._waiting = self._loop.call_later(delay, self._tell_now)

    def _tell_now(self) -> None:
        self._waiting = None
        self._next_at = self._loop.time() + self._every
        if self._tell is not None:
            self._tell()
