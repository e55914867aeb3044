"""The effects of a turn: what the run must do. Pure.

The run writes the durable effects of one step in one transaction (``SaveReply``,
``SaveResult``, ``GiveResult``, ``End``, ``Park``, ``Release``), and then performs the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from agents.states import RunOutcome
from workspaces.log.parts import FinishReason


@dataclass(frozen=True, slots=True)
class CallModel:
    """Call the model for its next reply. ``fold``: fold in queued prompts first."""

    fold: bool


@dataclass(frozen=True, slots=True)
class Summarise:
    """Call the model for a summary, from which the conversation continues."""


@dataclass(frozen=True, slots=True)
class SaveReply:
    """Write the model's whole reply, finished with this reason."""

    reason: FinishReason


@dataclass(frozen=True, slots=True)
class CheckCall:
    """Check whether the call may run; the verdict comes back as an input."""

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
    """Write this error as the call's result, because its tool did not finish."""

    call_id: str
    content: str


@dataclass(frozen=True, slots=True)
class AbortWork:
    """Stop the model's stream and every running tool at once."""


@dataclass(frozen=True, slots=True)
class Park:
    """Park the run: nothing can continue before an answer."""


@dataclass(frozen=True, slots=True)
class Release:
    """Release the run, for another worker to continue."""


@dataclass(frozen=True, slots=True)
class End:
    """End the run. ``reason`` replaces the last reply's finish unless it is ``None``."""

    outcome: RunOutcome
    reason: FinishReason | None = None
    note: str = ""  # stored with the finish, for people
    error: str = ""


Effect: TypeAlias = (
    CallModel
    | Summarise
    | SaveReply
    | CheckCall
    | RunTool
    | SaveResult
    | GiveResult
    | AbortWork
    | Park
    | Release
    | End
)
