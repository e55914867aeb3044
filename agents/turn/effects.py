"""What a turn wants done. Pure.

The runner carries the durable effects of one step out in one transaction
(``SaveReply``, ``GiveResult``, ``End``, ``Park``, ``Release``), then the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from workspaces.log.parts import FinishReason


class Outcome(StrEnum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model to go on. ``fold``: take queued prompts in before."""

    fold: bool


@dataclass(frozen=True, slots=True)
class Summarise:
    """Ask the model for a summary: the conversation goes on from it."""


@dataclass(frozen=True, slots=True)
class SaveReply:
    """Write the model's reply whole, finished with this reason."""

    reason: FinishReason


@dataclass(frozen=True, slots=True)
class Judge:
    """Find out whether the call may run, and say so by an input."""

    call_id: str


@dataclass(frozen=True, slots=True)
class RunTool:
    call_id: str


@dataclass(frozen=True, slots=True)
class SaveResult:
    """Write the result that came with the input."""

    call_id: str


@dataclass(frozen=True, slots=True)
class GiveResult:
    """Write this error as the call's result: its tool did not run to its end."""

    call_id: str
    content: str


@dataclass(frozen=True, slots=True)
class AbortWork:
    """Stop the model's stream and every running tool at once."""


@dataclass(frozen=True, slots=True)
class Park:
    """Nothing can go on before an answer."""


@dataclass(frozen=True, slots=True)
class Release:
    """Give the run up for another worker to go on with."""


@dataclass(frozen=True, slots=True)
class End:
    """The turn is over. ``reason`` replaces the last reply's finish where it is given."""

    outcome: Outcome
    reason: FinishReason | None = None
    note: str = ""  # told with the finish
    error: str = ""


Effect: TypeAlias = (
    CallModel
    | Summarise
    | SaveReply
    | Judge
    | RunTool
    | SaveResult
    | GiveResult
    | AbortWork
    | Park
    | Release
    | End
)
