"""A step of a turn as it is to be written, and what writing it says back. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.tools.contract import FileMark
from agents.turn.effects import End
from workspaces.log.parts import FinishReason, Parts, ToolResult


@dataclass(frozen=True, slots=True)
class ReplyWrite:
    """The model's reply, whole. Without an id no reply was begun yet."""

    message_id: str
    parts: Parts
    reason: FinishReason
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    context_tokens: int = 0  # what the conversation takes of the window with it
    is_summary: bool = False


@dataclass(frozen=True, slots=True)
class ReplyStart:
    model: str
    provider: str
    fold: bool = False
    is_summary: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """The durable effects of one advance of the turn."""

    reply: ReplyWrite | None = None
    results: Sequence[ToolResult] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)  # call id → why it has no result
    begins: Sequence[str] = ()  # calls whose tools start after this
    start: ReplyStart | None = None
    parks: bool = False
    releases: bool = False
    end: End | None = None
    reads: Mapping[str, FileMark] = field(default_factory=dict)  # files, by the results' tools
    model: str = ""  # for a reply that is made only to hold the end
    provider: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What a step's transaction says back."""

    is_cancelled: bool = False  # nothing was written: the cancel mark covers the run
    stream_number: int = 0
    message: Mapping[str, Any] | None = None  # the reply that was begun
    folded: bool = False  # prompts were taken in: the transcript has more messages
    answered: tuple[str, ...] = ()  # calls whose answers came before parking: not parked
