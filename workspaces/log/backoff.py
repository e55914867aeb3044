"""How long to wait before the next attempt: longer each time, with jitter, up to a limit."""

from __future__ import annotations

import random

FIRST_SECONDS = 0.02
LIMIT_SECONDS = 0.5


class Backoff:
    def __init__(
        self, *, first_seconds: float = FIRST_SECONDS, limit_seconds: float = LIMIT_SECONDS
    ) -> None:
        self._next_seconds = first_seconds
        self._limit_seconds = limit_seconds

    def next_seconds(self) -> float:
        """Twice as long as before. Several processes do not try again at the same moment."""
        seconds, self._next_seconds = (
            self._next_seconds,
            min(self._next_seconds * 2, self._limit_seconds),
        )
        return seconds * random.uniform(0.75, 1.0)
