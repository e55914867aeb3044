"""Pauses between attempts: each is twice as long as the one before, up to a limit."""

from __future__ import annotations

import random

# The pauses before a statement is tried again: a lock is soon free, a restart takes longer.
FIRST_SECONDS = 0.02
LIMIT_SECONDS = 0.5
_MOST_DOUBLINGS = 60  # any limit is reached before; more would not fit into a float


def pause_after(failures: int, *, first_seconds: float, limit_seconds: float) -> float:
    """Returns the pause after this many failures in a row, counted from 1."""
    doublings = min(failures - 1, _MOST_DOUBLINGS)
    return float(min(first_seconds * 2**doublings, limit_seconds))


class Backoff:
    """Counts the attempts, and shortens each pause by chance: processes do not retry together."""

    def __init__(
        self, *, first_seconds: float = FIRST_SECONDS, limit_seconds: float = LIMIT_SECONDS
    ) -> None:
        self._first_seconds = first_seconds
        self._limit_seconds = limit_seconds
        self._failures = 0

    @property
    def failures(self) -> int:
        return self._failures

    def next_seconds(self) -> float:
        self._failures += 1
        pause = pause_after(
            self._failures, first_seconds=self._first_seconds, limit_seconds=self._limit_seconds
        )
        return pause * random.uniform(0.75, 1.0)
