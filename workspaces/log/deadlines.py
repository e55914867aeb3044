"""How long a read or a write may wait for the database before its caller gets an error.

Runs wait without a limit: their work is in memory and would be lost. A client gets an error within
seconds and can retry.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

REQUEST_SECONDS = 5.0

_seconds: ContextVar[float | None] = ContextVar("wait_at_most", default=None)
_process_ends_at: list[float] = []  # set while the process stops


@contextmanager
def wait_at_most(seconds: float | None) -> Iterator[None]:
    """Limits waiting in this context and in tasks started from it. ``None``: no limit."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def wait_without_limit() -> None:
    """Removes the limit for the rest of this task."""
    _seconds.set(None)


def deadline() -> float | None:
    """Returns the current deadline by the monotonic clock, or ``None``."""
    seconds = _seconds.get()
    own = None if seconds is None else time.monotonic() + seconds
    if not _process_ends_at:
        return own
    return _process_ends_at[0] if own is None else min(own, _process_ends_at[0])


def limit_for_process(seconds: float | None) -> None:
    """Limits all waiting while the process stops. ``None`` removes the limit."""
    _process_ends_at[:] = [] if seconds is None else [time.monotonic() + seconds]


def is_over_for_process() -> bool:
    return bool(_process_ends_at) and time.monotonic() >= _process_ends_at[0]
