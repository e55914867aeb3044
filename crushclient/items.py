"""The items of a stream, as programs get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

PartKind: TypeAlias = Literal["text", "reasoning", "tool_call"]


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event of the workspace's log. Each number comes once, in order, without gaps.

    Messages in its data are complete, also in ``message.finished``.
    """

    number: int
    type: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewText:
    """Text that follows the known text of a part of an open message. Never repeated.

    ``kind`` is that of the part: only ``text`` is the reply itself; the text of a ``tool_call``
    is a piece of its arguments, a JSON document.
    """

    session_id: str
    message_id: str
    number: int  # of the event that started the message
    part: int
    offset: int  # in characters
    text: str
    kind: PartKind
    header: Mapping[str, str] | None = None  # the tool call's ``id`` and ``name``, with its start


@dataclass(frozen=True, slots=True)
class MessageState:
    """An open message as it is now. It replaces its known content.

    It comes for a message that was open before the stream began, and in the rare case that a crash
    of the server lost text which was shown already.
    """

    number: int
    message: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OutputSoFar:
    """The output of a running tool. Each one replaces the one before."""

    session_id: str
    message_id: str
    tool_call_id: str  # empty: of the user's command in the message
    text: str


@dataclass(frozen=True, slots=True)
class StreamLive:
    """All events up to this number were sent: the stream is live. After each connection."""

    number: int


@dataclass(frozen=True, slots=True)
class StreamLost:
    """The connection ended. The stream connects again by itself; nothing will be missing."""

    reason: str
    retry_seconds: float


@dataclass(frozen=True, slots=True)
class StateReplaced:
    """A folded session was read again as a whole: what was shown of it is out of date."""

    number: int


@dataclass(frozen=True, slots=True)
class OtherItem:
    """An item of a newer server that this version has no class for. It is not in the log."""

    type: str
    data: Mapping[str, Any]


StreamItem: TypeAlias = (
    LogEvent
    | NewText
    | MessageState
    | OutputSoFar
    | StreamLive
    | StreamLost
    | StateReplaced
    | OtherItem
)
