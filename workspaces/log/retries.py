"""How long a read or a write may wait for the database before its caller gets an error.

Runs wait as long as it takes: their work is in memory and would be lost. A client gets an error
within seconds, and can retry.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

REQUEST_SECONDS = 5.0

_seconds: ContextVar[float | None] = ContextVar("patience", default=None)
_process_ends_at: list[float] = []  # set while the process stops


@contextmanager
def patience(seconds: float | None) -> Iterator[None]:
    """For this context and the tasks that it starts. ``None``: as long as it takes."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def be_patient() -> None:
    """From here on this task waits as long as it takes."""
    _seconds.set(None)


def deadline() -> float | None:
    """By the monotonic clock; ``None``: there is none."""
    seconds = _seconds.get()
    own = None if seconds is None else time.monotonic() + seconds
    if not _process_ends_at:
        return own
    return _process_ends_at[0] if own is None else min(own, _process_ends_at[0])


def limit_for_process(seconds: float | None) -> None:
    """The process stops: whoever waits now or later waits no longer. ``None`` lifts it."""
    _process_ends_at[:] = [] if seconds is None else [time.monotonic() + seconds]


def is_over_for_process() -> bool:
    return bool(_process_ends_at) and time.monotonic() >= _process_ends_at[0]


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
