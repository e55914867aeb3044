"""When a server that failed is started again, and when no more. Pure: the clock is given."""

from __future__ import annotations

from agents.tools.mcp.limits import Patience


class Pauses:
    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failures = 0
        self._failed_at = 0.0

    def failed(self, now: float, *, lived: float) -> None:
        """``lived``: how long it had been connected."""
        if lived >= self._patience.steady_seconds:
            self._failures = 0
        self._failures += 1
        self._failed_at = now

    def forget(self) -> None:
        self._failures = 0

    @property
    def seconds(self) -> float | None:
        """Until the next attempt; ``None``: only when somebody asks."""
        if self._failures >= self._patience.tries:
            return None
        longest = self._patience.longest_pause_seconds
        return float(min(longest, self._patience.first_pause_seconds * 2 ** (self._failures - 1)))

    @property
    def is_short(self) -> bool:
        """The next attempt is worth waiting for."""
        return self._failures <= 2

    def may_be_tried(self, now: float) -> bool:
        """A server left alone, once in a while."""
        return now - self._failed_at >= self._patience.again_seconds
