"""What one assignment asks for, may use up, and came to. Pure values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Order:
    """``messages``: a conversation, oldest first, with the assignment's own turn in it."""

    assignment: str
    reasoning_effort: str | None = None
    messages: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class RunLimits:
    """None is no limit. Waiting for a person's answer counts for the clock, not as idleness."""

    wall_clock_seconds: float | None = None
    idle_seconds: float | None = None  # without any event
    most_steps: int | None = None
    # A child gives its run 3 s after a cancel, then aborts it.
    cancel_grace_seconds: float = 5.0
    # A run that was superseded may have died without a terminal.
    late_terminal_seconds: float = 30.0
    step_types: frozenset[str] = frozenset({"tool_call", "tool_start", "step"})


class Ending(StrEnum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ERROR = "error"  # the child's own
    SUSPENDED = "suspended"  # which this program does not take
    OUT_OF_TIME = "out_of_time"
    IDLE = "idle"
    OUT_OF_STEPS = "out_of_steps"
    LOST = "lost"  # died, or the connection did
    DEAF = "deaf"  # connected, and answers nothing


SENTENCES = {
    Ending.COMPLETED: "",
    Ending.CANCELLED: "The sub-agent was cancelled.",
    Ending.ERROR: "The sub-agent failed.",
    Ending.SUSPENDED: "The sub-agent suspended itself, which is not supported.",
    Ending.OUT_OF_TIME: "The sub-agent ran out of time.",
    Ending.IDLE: "The sub-agent was stopped because it showed no sign of work.",
    Ending.OUT_OF_STEPS: "The sub-agent used up its steps.",
    Ending.LOST: "The sub-agent was lost.",
    Ending.DEAF: "The sub-agent does not answer any more.",
}


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """Always one for an assignment that was begun, whatever died."""

    ending: Ending
    result: str | None = None  # of a child that completed
    error: str = ""  # a sentence unless it completed
    produced: str = field(default="", repr=False)  # the words it had said, bounded
    events: int = 0
    steps: int = 0
    is_child_usable: bool = False  # it may be given the next assignment


@dataclass(frozen=True, slots=True)
class Listener:
    """Events come one after another and hold back the next; approvals run side by side.

    ``on_approval`` is cancelled when the run ends first. If it raises, the answer is no.
    """

    on_event: Callable[[Any], Awaitable[None]]
    on_approval: Callable[[str, Any], Awaitable[bool]]
