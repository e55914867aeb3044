"""When a request or a stream is tried again, and after which pause."""

from __future__ import annotations

import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 30  # any limit is reached before


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Pauses that double, shortened by chance, so that many clients do not return together."""

    attempts: int = 4  # of a request; streams try again until ``give_up_seconds`` have passed
    first_seconds: float = 0.2
    limit_seconds: float = 5.0
    give_up_seconds: float | None = None  # of a stream: ``None`` tries forever
    statuses: frozenset[int] = frozenset({429, 502, 503, 504})

    def pause(self, failures: int, *, retry_after_seconds: float | None = None) -> float:
        """Returns the seconds before the next attempt, after this many failures in a row."""
        doubled: float = self.first_seconds * 2 ** min(max(failures - 1, 0), _MOST_DOUBLINGS)
        pause = min(doubled, self.limit_seconds) * random.uniform(0.5, 1.0)
        return max(pause, min(retry_after_seconds or 0.0, 60.0))
