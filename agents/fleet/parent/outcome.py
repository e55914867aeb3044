"""The order, the limits, the progress and the outcome of an assignment. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agents.fleet.wire.frames import Status, Terminal


@dataclass(frozen=True, slots=True)
class Order:
    """The work of a run. ``messages``: the conversation, oldest first, with this assignment."""

    assignment: str
    reasoning_effort: str | None = None
    messages: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of a run; None means no limit. Waiting for a person is not idle time."""

    wall_clock_seconds: float | None = None
    idle_seconds: float | None = None  # without any event
    most_steps: int | None = None
    # A child waits 3 s after a cancel, then aborts its run.
    cancel_grace_seconds: float = 5.0
    # A run that was superseded may have died without a terminal.
    late_terminal_seconds: float = 30.0
    step_types: frozenset[str] = frozenset({"tool_call", "tool_start", "step"})


class Ending(StrEnum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ERROR = "error"  # reported by the child
    SUSPENDED = "suspended"  # which this program does not support
    OUT_OF_TIME = "out_of_time"
    IDLE = "idle"
    OUT_OF_STEPS = "out_of_steps"
    LOST = "lost"  # the child or the connection died
    UNRESPONSIVE = "deaf"  # connected, but does not answer


SENTENCES = {
    Ending.COMPLETED: "",
    Ending.CANCELLED: "The sub-agent was cancelled.",
    Ending.ERROR: "The sub-agent failed without a reason.",
    Ending.SUSPENDED: "The sub-agent suspended itself, which this server does not support.",
    Ending.OUT_OF_TIME: "The sub-agent was stopped at the time limit of its role.",
    Ending.IDLE: "The sub-agent was stopped because it sent nothing for as long as its role allows.",
    Ending.OUT_OF_STEPS: "The sub-agent was stopped at the step limit of its role.",
    Ending.LOST: "The connection to the sub-agent was lost.",
    Ending.UNRESPONSIVE: "The sub-agent no longer answers.",
}


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """How an assignment ended. Every started assignment has one, even if the child died."""

    ending: Ending
    result: str | None = None  # only of a completed run
    error: str = ""  # a sentence unless it completed
    produced: str = field(default="", repr=False)  # the text that it had sent, bounded
    events: int = 0
    steps: int = 0
    is_child_usable: bool = False  # it can take another assignment


@dataclass(frozen=True, slots=True)
class Listener:
    """Gets events one at a time, and approval requests concurrently.

    ``on_approval`` is cancelled if the run ends first. If it raises, the request is denied.
    """

    on_event: Callable[[Any], Awaitable[None]]
    on_approval: Callable[[str, Any], Awaitable[bool]]


class Deadlines:
    """Computes when an assignment must end. The caller passes the time in."""

    def __init__(self, limits: RunLimits, now: float) -> None:
        self._limits = limits
        self._started = self._active_at = now
        self._approvals = 0
        self._stopping_since: float | None = None
        self._awaits_late_terminal = False

    @property
    def is_stopping(self) -> bool:
        return self._stopping_since is not None

    def restarted(self, now: float) -> None:
        self._started = self._active_at = now

    def record_activity(self, now: float) -> None:
        self._active_at = now

    def count_questions(self, change: int, now: float) -> None:
        """Records that one question more, or fewer, waits for a person."""
        self._approvals += change
        self._active_at = now

    def stopping(self, now: float) -> None:
        if self._stopping_since is None:
            self._stopping_since = now

    def awaiting_late_terminal(self, now: float) -> None:
        self._awaits_late_terminal = True
        self._active_at = now

    def passed(self, now: float) -> Ending | None:
        """Returns the first limit that has passed, or None."""
        over = [(at, ending) for at, ending in self._all() if at <= now]
        return min(over)[1] if over else None

    def is_given_up(self, now: float) -> bool:
        """Whether the grace period after a cancel is over."""
        since, grace = self._stopping_since, self._limits.cancel_grace_seconds
        return since is not None and since + grace <= now

    def is_terminal_late(self, now: float) -> bool:
        late = self._active_at + self._limits.late_terminal_seconds
        return self._awaits_late_terminal and late <= now

    def next_look(self) -> float | None:
        """Returns the next time at which one of the methods above changes its result."""
        moments = [at for at, _ in self._all()]
        if self._stopping_since is not None:
            moments = [self._stopping_since + self._limits.cancel_grace_seconds]
        if self._awaits_late_terminal:
            moments.append(self._active_at + self._limits.late_terminal_seconds)
        return min(moments, default=None)

    def _all(self) -> list[tuple[float, Ending]]:
        limits = self._limits
        found: list[tuple[float, Ending]] = []
        if limits.wall_clock_seconds is not None:
            found.append((self._started + limits.wall_clock_seconds, Ending.OUT_OF_TIME))
        if limits.idle_seconds is not None and self._approvals == 0:
            found.append((self._active_at + limits.idle_seconds, Ending.IDLE))
        return found


MOST_CHARACTERS = 256 * 1024


class Produced:
    """Counts the events and steps of a run, and collects its text up to a limit."""

    def __init__(self, step_types: frozenset[str]) -> None:
        self._step_types = step_types
        self._words: list[str] = []
        self._length = 0
        self.events = 0
        self.steps = 0

    def take(self, event: Any) -> None:
        self.events += 1
        if not isinstance(event, dict):
            return
        kind = event.get("type")
        if isinstance(kind, str) and kind in self._step_types:
            self.steps += 1
        content = event.get("content")
        if kind == "token" and isinstance(content, str):
            room = MOST_CHARACTERS - self._length
            if room > 0:
                self._words.append(content[:room])
                self._length += min(len(content), room)

    @property
    def text(self) -> str:
        return "".join(self._words)


class Terminals:
    """Collects the terminals of a run and of the runs that it superseded."""

    def __init__(self) -> None:
        self._expected = 1
        self._taken: list[Terminal] = []

    def superseded(self) -> None:
        self._expected += 1

    def take(self, terminal: Terminal) -> bool:
        """Stores a terminal; returns whether it was the last one due."""
        self._taken.append(terminal)
        return len(self._taken) >= self._expected

    @property
    def may_be_over(self) -> bool:
        """Whether the newest run may have ended: the terminal still due may never come."""
        return any(terminal.status != Status.CANCELLED for terminal in self._taken)

    def chosen(self, *, was_cancelled: bool) -> Terminal:
        """Returns the newest run's terminal. Needs at least one."""
        ended = [each for each in self._taken if each.status != Status.CANCELLED]
        if len(ended) == 1 and not was_cancelled:
            return ended[0]
        # A run that ended by itself just before it was superseded comes first.
        return self._taken[-1]
