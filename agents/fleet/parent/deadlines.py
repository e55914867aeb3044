"""When an assignment has to end, from what has happened so far. Pure: the time is told."""

from __future__ import annotations

from agents.fleet.parent.outcome import Ending, RunLimits


class Deadlines:
    def __init__(self, limits: RunLimits, now: float) -> None:
        self._limits = limits
        self._started = self._heard = now
        self._approvals = 0
        self._stopping_since: float | None = None
        self._awaits_late_terminal = False

    @property
    def is_stopping(self) -> bool:
        return self._stopping_since is not None

    def restarted(self, now: float) -> None:
        self._started = self._heard = now

    def heard(self, now: float) -> None:
        self._heard = now

    def asked(self, change: int, now: float) -> None:
        """One more, or one fewer, question waits for a person."""
        self._approvals += change
        self._heard = now

    def stopping(self, now: float) -> None:
        if self._stopping_since is None:
            self._stopping_since = now

    def awaiting_late_terminal(self, now: float) -> None:
        self._awaits_late_terminal = True
        self._heard = now

    def passed(self, now: float) -> Ending | None:
        """Which limit is over; the earliest of them."""
        over = [(at, ending) for at, ending in self._all() if at <= now]
        return min(over)[1] if over else None

    def is_given_up(self, now: float) -> bool:
        """It was told to stop, and has had its grace."""
        since, grace = self._stopping_since, self._limits.cancel_grace_seconds
        return since is not None and since + grace <= now

    def is_terminal_late(self, now: float) -> bool:
        late = self._heard + self._limits.late_terminal_seconds
        return self._awaits_late_terminal and late <= now

    def next_look(self) -> float | None:
        """The next moment at which any of the answers above changes."""
        moments = [at for at, _ in self._all()]
        if self._stopping_since is not None:
            moments = [self._stopping_since + self._limits.cancel_grace_seconds]
        if self._awaits_late_terminal:
            moments.append(self._heard + self._limits.late_terminal_seconds)
        return min(moments, default=None)

    def _all(self) -> list[tuple[float, Ending]]:
        limits = self._limits
        found: list[tuple[float, Ending]] = []
        if limits.wall_clock_seconds is not None:
            found.append((self._started + limits.wall_clock_seconds, Ending.OUT_OF_TIME))
        if limits.idle_seconds is not None and self._approvals == 0:
            found.append((self._heard + limits.idle_seconds, Ending.IDLE))
        return found
