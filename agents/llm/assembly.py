"""Folds a model's events into the parts of one message.

Pure; the caller passes the time in. Each piece of text becomes a ``ReplyDelta`` with
its part and its offset, so that a reader can join at any point; the offset counts
Unicode code points. This code runs for every piece of text, so pieces stay in lists
until a caller reads the parts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

from agents.llm.contract import (
    ModelEvent,
    ReasoningDelta,
    ReasoningSigned,
    Restarted,
    Stopped,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
)
from agents.llm.errors import ReplyTooLarge
from workspaces.log.parts import Parts, Reasoning, Text, ToolCall
from workspaces.log.types import Header
from workspaces.storable import storable_text

REPLY_LIMIT = 8 * 1024 * 1024  # characters
PART_LIMIT = 2_000
PART_COST = 64  # characters that an empty part counts as


class ReplyDelta(NamedTuple):
    """The change that one event makes; only the first delta of a part has a ``header``."""

    part: int
    offset: int
    text: str
    header: Header


@dataclass(slots=True)
class _OpenPart:
    """An unfinished part; ``kind`` decides which of the last fields it uses."""

    kind: Literal["text", "reasoning", "tool_call"]
    index: int
    pieces: list[str]
    length: int = 0
    call_id: str = ""
    name: str = ""
    finished: bool = False
    signature: str = ""
    started_at: int = 0
    finished_at: int = 0

    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class ReplyAssembly:
    """One reply. ``apply`` raises ``ReplyTooLarge`` and keeps the parts received before."""

    def __init__(self, *, limit: int = REPLY_LIMIT, taken: Collection[str] = frozenset()) -> None:
        """``taken``: call ids of earlier replies, because some models restart their ids in each."""
        self._limit = limit
        self._taken = frozenset(taken)
        self.reset()

    def reset(self) -> None:
        """Discards everything received, for a new attempt."""
        self._parts: list[_OpenPart] = []
        self._open: _OpenPart | None = None  # the text or reasoning that the next delta may extend
        self._calls: dict[str, _OpenPart] = {}  # by the wire's id: the newest call of that id
        self._size = 0
        self.stopped: Stopped | None = None

    def apply(self, event: ModelEvent, *, now: int = 0) -> ReplyDelta | None:
        """Returns the delta for clients, or ``None``. ``now`` is for the times of reasoning."""
        if type(event) is TextDelta:
            return self._append("text", event.text, now)
        if type(event) is ReasoningDelta:
            return self._append("reasoning", event.text, now)
        return self._apply_rare(event, now)

    def _apply_rare(self, event: ModelEvent, now: int) -> ReplyDelta | None:
        match event:
            case ToolInputDelta():
                call = self._calls.get(event.id)
                if call is None or not event.text:
                    return None
                return self._grow(call, storable_text(event.text), None)
            case ToolCallStarted():
                return self._start_call(event, now)
            case ToolCallFinished():
                if (call := self._calls.get(event.id)) is not None:
                    call.finished = True
                return None
            case ReasoningSigned():
                return self._sign(event.signature, now)
            case Stopped():
                self._close(now)
                self.stopped = event
                return None
            case Restarted():
                self.reset()
                return None
            case TextDelta() | ReasoningDelta():
                return self._append(
                    "text" if isinstance(event, TextDelta) else "reasoning", event.text, now
                )

    def parts(self, *, now: int = 0) -> Parts:
        """Returns the parts received so far. Reasoning that is still open ends at ``now``."""
        return tuple(_frozen(part, now) for part in self._parts)

    @property
    def size(self) -> int:
        return self._size

    @property
    def empty(self) -> bool:
        return not self._parts

    def _append(self, kind: Literal["text", "reasoning"], text: str, now: int) -> ReplyDelta | None:
        if not text:
            return None
        if "\x00" in text:
            text = storable_text(text)
        part = self._open
        if part is not None and part.kind == kind and not part.signature:
            return self._grow(part, text, None)
        self._check_room(len(text) + PART_COST)
        self._close(now)
        part = self._begin(kind)
        part.started_at = now
        self._open = part
        return self._grow(part, text, kind)

    def _grow(self, part: _OpenPart, text: str, header: Header) -> ReplyDelta:
        length = len(text)
        if self._size + length > self._limit:
            raise self._too_large()
        self._size += length
        offset = part.length
        part.pieces.append(text)
        part.length = offset + length
        return ReplyDelta(part.index, offset, text, header)

    def _begin(self, kind: Literal["text", "reasoning", "tool_call"]) -> _OpenPart:
        part = _OpenPart(kind, len(self._parts), [])
        self._parts.append(part)
        self._size += PART_COST
        return part

    def _start_call(self, event: ToolCallStarted, now: int) -> ReplyDelta:
        name = storable_text(event.name)
        self._check_room(len(event.id) + len(name) + PART_COST)
        self._close(now)
        call = self._begin("tool_call")
        call.call_id, call.name = self._unique(storable_text(event.id)), name
        self._size += len(event.id) + len(name)
        self._calls[event.id] = call
        header = {"type": "tool_call", "id": call.call_id, "name": name}
        return ReplyDelta(call.index, 0, "", header)

    def _unique(self, call_id: str) -> str:
        taken = {part.call_id for part in self._parts if part.kind == "tool_call"} | self._taken
        unique, number = call_id or "call", 1
        while unique in taken:
            number += 1
            unique = f"{call_id or 'call'}-{number}"
        return unique

    def _sign(self, signature: str, now: int) -> ReplyDelta | None:
        """Signs the open reasoning, or adds an empty reasoning part with only a signature."""
        if not signature:
            return None
        self._check_room(len(signature) + PART_COST)
        part = self._open
        header: Header = None
        if part is None or part.kind != "reasoning" or part.signature:
            self._close(now)
            part, header = self._begin("reasoning"), "reasoning"
            part.started_at = now
            self._open = part
        part.signature = storable_text(signature)
        self._size += len(signature)
        part.finished_at = now
        return ReplyDelta(part.index, 0, "", header) if header else None

    def _close(self, now: int) -> None:
        part, self._open = self._open, None
        if part is not None and part.kind == "reasoning" and not part.finished_at:
            part.finished_at = now

    def _check_room(self, size: int) -> None:
        if self._size + size > self._limit or len(self._parts) >= PART_LIMIT:
            raise self._too_large()

    def _too_large(self) -> ReplyTooLarge:
        return ReplyTooLarge(
            f"The model's reply is larger than a message may be ({self._limit:,} characters or "
            f"{PART_LIMIT:,} parts). Divide the work into smaller prompts."
        )


def _frozen(part: _OpenPart, now: int) -> Text | Reasoning | ToolCall:
    match part.kind:
        case "text":
            return Text(part.text())
        case "reasoning":
            return Reasoning(part.text(), part.signature, part.started_at, part.finished_at or now)
        case "tool_call":
            return ToolCall(part.call_id, part.name, part.text(), part.finished)
