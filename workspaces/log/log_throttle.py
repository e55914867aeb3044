"""Logs at most one line a second about the same trouble; the next line counts those left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

INTERVAL_SECONDS = 1.0
KEYS_LIMIT = 1_000


class LogThrottle:
    """Callable from any thread."""

    def __init__(
        self,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[Hashable, tuple[float, int]] = {}  # when written, how many left out

    def admit(self, key: Hashable) -> int | None:
        """``None``: leave this line out. Otherwise the number of lines left out before it."""
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
