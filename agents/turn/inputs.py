"""The inputs of a turn: everything that can happen to it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from workspaces.log.parts import FinishReason


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool call of the model's reply, with the fields that the machine needs."""

    id: str
    name: str
    input: str
    parallel: bool = False  # may run in parallel with its neighbours, because it only reads


@dataclass(frozen=True, slots=True)
class Begun:
    """The run was claimed, for the first time or again."""

    is_full: bool = False  # the conversation nearly fills the model's window
    only_summarises: bool = False  # the run only writes a summary


@dataclass(frozen=True, slots=True)
class Replied:
    """The model's reply came to its regular end."""

    reason: FinishReason
    calls: tuple[RequestedCall, ...] = ()
    is_full: bool = False  # with it, the conversation nearly fills the model's window


@dataclass(frozen=True, slots=True)
class ReplyFailed:
    """The model's reply failed after all retries."""

    error: str
    is_exhausted: bool = False  # the reason is that the conversation does not fit the window


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call may run: it needs no permission, or has it."""

    call_id: str


@dataclass(frozen=True, slots=True)
class AnswerNeeded:
    """The call waits for a person or for a delegation."""

    call_id: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The wait of the call is over: it must be checked again."""

    call_id: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The call was denied, which ends the turn."""

    call_id: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """The call has a result, from its tool or about the reason why it could not run."""

    call_id: str
    content: str


@dataclass(frozen=True, slots=True)
class CancelSeen:
    """The run was cancelled."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """This process stops soon: release the run at the next step boundary."""


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
