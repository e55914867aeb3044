"""What can happen to a turn. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from workspaces.log.parts import FinishReason


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool call of the model's reply, as far as the machine must know it."""

    id: str
    name: str
    input: str
    parallel: bool = False  # may run beside its neighbours, because it only reads


@dataclass(frozen=True, slots=True)
class Begun:
    """The run was claimed, for the first time or again."""

    is_full: bool = False  # the conversation nearly fills the model's window
    only_summarises: bool = False  # the run is for a summary and nothing else


@dataclass(frozen=True, slots=True)
class Replied:
    """The model's reply came to its regular end."""

    reason: FinishReason
    calls: tuple[Asked, ...] = ()
    is_full: bool = False  # with it, the conversation nearly fills the model's window


@dataclass(frozen=True, slots=True)
class ReplyFailed:
    """The model could not be had, after all retries."""

    error: str
    is_exhausted: bool = False  # because the conversation does not fit its window


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call may run: nothing to ask, or the answer was yes."""

    call_id: str


@dataclass(frozen=True, slots=True)
class AnswerNeeded:
    """The call waits: for a person, or for a run of its own."""

    call_id: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What the call waited for has come: judge it again."""

    call_id: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The answer was no: the turn ends here."""

    call_id: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """The call has its result: the tool's, or why it could not run."""

    call_id: str
    content: str


@dataclass(frozen=True, slots=True)
class CancelSeen:
    """Somebody cancelled what was accepted up to this run."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """This process is about to stop: give the run up where nothing is half done."""


Input: TypeAlias = (
    Begun
    | Replied
    | ReplyFailed
    | Allowed
    | AnswerNeeded
    | Answered
    | Denied
    | ToolEnded
    | CancelSeen
    | HandOver
)
