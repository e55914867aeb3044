"""The frames as values. Opaque JSON is not examined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

Json: TypeAlias = Any


class Status(StrEnum):
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLED = "cancelled"
    SUSPENDED = "suspended"


# -- from the parent


@dataclass(frozen=True, slots=True)
class RunFrame:
    """Starts a run. ``messages``: the conversation, oldest first, with the assignment's turn.

    ``more`` holds the fields that newer parents add, in their original order. It may
    hold a secret.
    """

    assignment: str
    reasoning_effort: str | None = None
    messages: tuple[Json, ...] = ()
    more: Mapping[str, Json] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Cancel:
    pass


@dataclass(frozen=True, slots=True)
class MessageFrame:
    text: str


@dataclass(frozen=True, slots=True)
class ApprovalReply:
    id: str
    approved: bool


# -- from the child


@dataclass(frozen=True, slots=True)
class EventFrame:
    event: Json


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of a newer child, for a parent that gave its run an epoch."""

    activation_id: str
    execution_epoch: int
    first_seq: int
    last_seq: int
    qos: str  # durable, snapshot, ephemeral
    events: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    id: str
    body: Json


@dataclass(frozen=True, slots=True)
class Terminal:
    status: Status
    result: str | None = None
    error: str | None = None
    transcript: tuple[Json, ...] = ()
    more: Mapping[str, Json] = field(default_factory=dict, repr=False)


# -- from either


@dataclass(frozen=True, slots=True)
class Other:
    """A frame of the newer version that is known by name and has no effect here."""

    kind: str
    fields: Mapping[str, Json] = field(default_factory=dict, repr=False)


ParentFrame: TypeAlias = RunFrame | Cancel | MessageFrame | ApprovalReply | Other
ChildFrame: TypeAlias = EventFrame | EventBatch | ApprovalRequest | Terminal | Other
Frame: TypeAlias = ParentFrame | ChildFrame
