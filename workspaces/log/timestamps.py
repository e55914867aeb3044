"""Timestamps: whole milliseconds since 1970, UTC, as every row holds them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

# On Linux a suspended machine's clock goes on with BOOTTIME, and stands still with MONOTONIC.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
TOLERATED_NS = 1_000_000
STEP_NS = 1_000_000_000


def _steady_ns() -> int:
    return time.clock_gettime_ns(_STEADY)


class SharedClock:
    """The time that rows hold: of this host, or of a database that several hosts share.

    Leases and claims of one host are compared with the time of another, so their clocks must not
    matter. A steady clock carries the database's time from one reading to the next.
    """

    def __init__(
        self,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = _steady_ns,
    ) -> None:
        self._wall_ns = wall_ns
        self.steady_ns = steady_ns
        self._base_ns: int | None = None  # the database's time minus the steady clock's
        self._stepped_at: int | None = None

    def now_ns(self) -> int:
        base = self._base_ns
        return self._wall_ns() if base is None else base + self.steady_ns()

    def adjust(self, database_ns: int, *, before_ns: int, after_ns: int) -> None:
        """Takes over a reading of the database's clock, made between two of the steady clock.

        A slow reading is exact to half its duration only: it corrects larger differences.
        """
        base = database_ns - (before_ns + after_ns) // 2
        known = self._base_ns
        if known is None:
            self._base_ns = base
            return
        difference = abs(base - known)
        if difference > (after_ns - before_ns) // 2 + TOLERATED_NS:
            self._base_ns = base
            if difference > STEP_NS:
                self._stepped_at = after_ns

    def use_host(self) -> None:
        """Goes back to the clock of this host."""
        self._base_ns = self._stepped_at = None

    def has_stepped_within(self, seconds: float) -> bool:
        """Whether the database's clock was set a short time ago.

        Other processes may not have renewed their leases and claims in the new time yet.
        """
        at = self._stepped_at
        return at is not None and self.steady_ns() - at < seconds * 1e9


CLOCK = SharedClock()


def now_ms() -> int:
    return CLOCK.now_ns() // 1_000_000


def as_seconds(moment: int) -> int:
    """Converts a timestamp to the seconds of the ``/v1`` wire."""
    return moment // 1000


def as_rfc3339(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat().replace("+00:00", "Z")


def for_people(moment: int) -> str:
    """A moment as people read it in a table, to the second."""
    return f"{as_rfc3339(moment)[:19]}Z".replace("T", " ")
