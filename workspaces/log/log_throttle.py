"""Limits log lines about the same problem to one a second, and counts those left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

INTERVAL_SECONDS = 1.0
KEYS_LIMIT = 1_000


class LogThrottle:
    """The times of the last lines, by key. Thread-safe."""

    def __init__(
        self,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[
            Hashable, tuple[float, int]
        ] = {}  # time of the last line, number of lines left out since

    def admit(self, key: Hashable) -> int | None:
        """Returns the number of lines left out before this one; ``None``: leave this one out."""
        now = self._clock()
        with self._lock:
            written_at, left_out = self._lines.get(key, (None, 0))
            if written_at is not None and now - written_at < self._interval_seconds:
                self._lines[key] = (written_at, left_out + 1)
                return None
            if len(self._lines) >= KEYS_LIMIT:
                self._lines.clear()
            self._lines[key] = (now, 0)
            return left_out
