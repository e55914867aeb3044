"""Since when this process cannot reach its database, or cannot write to it.

The writer and the reading threads report failures here; it logs at most one line a second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from workspaces.log.log_throttle import LogThrottle

logger = logging.getLogger(__name__)

LONG_SECONDS = 1.0  # a database restart is shorter: requests wait for its end


class Outage:
    """The current outage, if any. Thread-safe."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.throttle = LogThrottle(clock=clock)
        self._ended_at: float | None = None
        self.since: float | None = None

    def report(self, error: BaseException) -> None:
        """Records a failure that may pass."""
        with self._lock:
            if self.since is None:
                self.since = self._clock()
            seconds = self._clock() - self.since
        if self.throttle.admit("outage") is not None:
            since = f" since {seconds:.1f} s" if seconds >= LONG_SECONDS else ""
            logger.warning("the database cannot be used%s: %s", since, one_line(error))

    def report_end(self) -> None:
        """Records that the database works again. Check ``since`` first, to avoid the lock."""
        with self._lock:
            if self.since is None:
                return
            seconds = self._clock() - self.since
            self.since, self._ended_at = None, self._clock()
        level = logging.WARNING if seconds >= LONG_SECONDS else logging.DEBUG
        logger.log(level, "the database can be used again after %.1f s", seconds)

    def forget(self) -> None:
        """Forgets earlier outages, when another clock begins."""
        with self._lock:
            self.since = self._ended_at = None

    @property
    def seconds(self) -> float:
        """Returns how long it has lasted; 0 without one."""
        since = self.since
        return 0.0 if since is None else self._clock() - since

    @property
    def is_long(self) -> bool:
        """Whether it lasts long enough to refuse requests at once instead of letting them wait."""
        since = self.since
        return since is not None and self._clock() - since > LONG_SECONDS

    def is_recent(self, seconds: float) -> bool:
        """Whether an outage lasts or ended less than ``seconds`` ago.

        Other processes may not have renewed their leases and claims yet.
        """
        ended_at = self._ended_at
        return self.since is not None or (
            ended_at is not None and self._clock() - ended_at < seconds
        )


def one_line(error: BaseException) -> str:
    """Returns the error's message in one line, at most 300 characters long."""
    return " ".join(str(error).split())[:300] or type(error).__name__


outage = Outage()
