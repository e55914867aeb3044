"""An open message in memory: the parts of its row, and the deltas since.

Pure. Applying a delta twice changes nothing, and a delta that leaves a gap is rejected: with their
offsets the text stays exact even where deltas are lost or repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

import orjson
from typing_extensions import override

from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import CLOSING, STARTING, Delta, Header, Kind

# The field that holds the text of an open part.
TEXT_FIELDS = {"text": "text", "reasoning": "thinking", "tool_call": "input"}


class Applied(Enum):
    NEW = "new"
    KNOWN = "known"
    GAP = "gap"


class LivePart:
    __slots__ = ("_chunks", "_json", "_rest", "header", "length")

    def __init__(
        self, header: Header, text: str = "", *, rest: Mapping[str, Any] | None = None
    ) -> None:
        self.header = header
        self._chunks = [text] if text else []
        self._rest = rest  # the other fields of a stored part
        self._json: bytes | None = None
        self.length = len(text)

    def grow(self, text: str, length: int) -> None:
        self._chunks.append(text)
        self.length += length
        self._json = None

    def text(self) -> str:
        if len(self._chunks) != 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0]

    def to_wire(self) -> dict[str, Any]:
        if self.header == "reasoning":
            rest = self._rest or {"signature": ""}
            return {"type": "reasoning", "data": {**rest, "thinking": self.text()}}
        if isinstance(self.header, Mapping):
            rest = self._rest or {"id": self.header["id"], "name": self.header["name"]}
            return {"type": "tool_call", "data": {**rest, "input": self.text()}}
        return {"type": "text", "data": {"text": self.text()}}

    def json(self) -> bytes:
        """Returns ``to_wire`` as JSON, cached until the part grows."""
        if self._json is None:
            if self.header == "text":
                self._json = b'{"type":"text","data":{"text":%b}}' % orjson.dumps(self.text())
            else:
                self._json = orjson.dumps(self.to_wire())
        return self._json


class StoredPart(LivePart):
    """A part that never grows by deltas and keeps its stored form."""

    __slots__ = ("_wire",)

    def __init__(self, wire: Mapping[str, Any]) -> None:
        super().__init__(None)
        self._wire = wire

    @override
    def to_wire(self) -> dict[str, Any]:
        return dict(self._wire)


class LiveMessage:
    __slots__ = ("_head", "encoded", "message", "number", "parts", "size")

    def __init__(self, number: int, message: Mapping[str, Any]) -> None:
        self.number = number
        self.message = message
        self.parts = [_part_from_wire(part) for part in message.get("parts", ())]
        self.size = sum(part.length for part in self.parts)
        self.encoded: bytes | None = None  # a cache for a wire, cleared at each change
        self._head: bytes | None = None

    def follow(self, delta: Delta) -> bool:
        """Appends a delta that continues a known part, as almost all do; else returns ``False``."""
        _, index, offset, text, header = delta
        if header is not None or index >= len(self.parts) or not text:
            return False
        part = self.parts[index]
        if part.length != offset:
            return False
        length = len(text)
        part.grow(text, length)
        self.size += length
        self.encoded = None
        return True

    def apply(self, delta: Delta) -> tuple[Applied, Delta]:
        """Adds the new text of a delta; returns the outcome and a delta of only that text."""
        if self.follow(delta):
            return Applied.NEW, delta
        index = delta.part
        opens = index == len(self.parts) and delta.offset == 0
        if opens:
            self.parts.append(LivePart(delta.header if delta.header is not None else "text"))
        elif index >= len(self.parts):
            return Applied.GAP, delta
        part = self.parts[index]
        known = part.length - delta.offset
        if known < 0:
            return Applied.GAP, delta
        if not opens:
            if known >= len(delta.text):
                return Applied.KNOWN, delta
            if known or delta.header is not None:
                delta = Delta(delta.number, index, part.length, delta.text[known:])
        part.grow(delta.text, len(delta.text))
        self.size += len(delta.text)
        self.encoded = None
        return Applied.NEW, delta

    def catch_up(self, parts: Iterable[Mapping[str, Any]]) -> list[Delta]:
        """Adds the text that a later state of the message has; returns it as deltas.

        A part whose text is known already may have its ``length`` instead.
        """
        added = []
        for index, wire in enumerate(parts):
            field = TEXT_FIELDS.get(wire["type"], "")
            if index == len(self.parts):
                data = {**wire["data"], field: ""} if field else wire["data"]
                self.parts.append(_part_from_wire({"type": wire["type"], "data": data}))
            known = self.parts[index].length
            if new := wire["data"].get(field, "")[known:]:
                added.append(self.apply(Delta(self.number, index, known, new))[1])
        return added

    def show_output(self, text: str) -> None:
        """Replaces the output of the user's command in this message."""
        for index, part in enumerate(self.parts):
            wire = part.to_wire()
            if wire["type"] == "shell_command":
                data = {**wire["data"], "output": text}
                self.parts[index] = StoredPart({"type": "shell_command", "data": data})
                self.size = len(text)
                self.encoded = None

    def covers(self, other: LiveMessage) -> bool:
        """Whether this message has all the text of the other."""
        return len(self.parts) >= len(other.parts) and all(
            mine.length >= theirs.length
            for mine, theirs in zip(self.parts, other.parts, strict=False)
        )

    def to_wire(self) -> dict[str, Any]:
        return {**self.message, "parts": [part.to_wire() for part in self.parts]}

    def json(self) -> bytes:
        """Returns ``to_wire`` as JSON; encodes only the parts that changed."""
        if self._head is None:
            rest = {key: value for key, value in self.message.items() if key != "parts"}
            self._head = orjson.dumps({**rest, "parts": []})[:-2]  # without the closing brackets
        parts = b",".join([part.json() for part in self.parts])
        return b"%b%b]}" % (self._head, parts)


def _part_from_wire(raw: Mapping[str, Any]) -> LivePart:
    data = raw["data"]
    match raw["type"]:
        case "text":
            return LivePart("text", data.get("text", ""))
        case "reasoning":
            return LivePart("reasoning", data.get("thinking", ""), rest=data)
        case "tool_call":
            header = {"type": "tool_call", "id": data["id"], "name": data["name"]}
            return LivePart(header, data.get("input", ""), rest=data)
        case _:
            return StoredPart(raw)


def coalesced(items: Iterable[Delta]) -> list[Delta]:
    """Joins consecutive deltas of one part into fewer, longer ones."""
    joined: list[Delta] = []
    for delta in items:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.number == delta.number
            and last.part == delta.part
            and last.offset + len(last.text) == delta.offset
            and delta.header is None
        ):
            joined[-1] = Delta(
                last.number, last.part, last.offset, last.text + delta.text, last.header
            )
        else:
            joined.append(delta)
    return joined


class OpenMessages(dict[int, LiveMessage]):
    """The open messages by number; a plain dict because each delta does a lookup."""

    def __init__(self, producers: Mapping[int, LiveMessage] = MappingProxyType({})) -> None:
        super().__init__()
        self._producers = producers  # the messages that this process writes

    def begin(self, rows: Mapping[int, LiveMessage]) -> None:
        """Adds the open messages of the database; those that this process writes are newer."""
        self.update({number: self._producers.get(number, row) for number, row in rows.items()})

    def adopt(self, live: LiveMessage) -> None:
        """Replaces a known message by the object that this process writes to."""
        if live.number in self:
            self[live.number] = live

    def follow(self, event: RecordedEvent) -> LiveMessage | None:
        """Applies an event of the log; returns the message that it closes, if any."""
        if event.kind in STARTING:
            message = event.payload["message"]
            self.close(message["id"])
            self[event.number] = self._producers.get(event.number) or LiveMessage(
                event.number, message
            )
        elif event.kind in CLOSING:
            return self.close(event.payload["message"]["id"])
        elif event.kind == Kind.SESSION_DELETED:
            session_id = event.payload["session"]["id"]
            for number in [n for n, m in self.items() if m.message["session_id"] == session_id]:
                del self[number]
        return None

    def number_of(self, message_id: str) -> int | None:
        for number, live in self.items():
            if live.message["id"] == message_id:
                return number
        return None

    def close(self, message_id: str) -> LiveMessage | None:
        """Removes an open message and returns it."""
        number = self.number_of(message_id)
        return None if number is None else self.pop(number)
