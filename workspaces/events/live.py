"""An open message in memory: the row's parts plus the words since.

Pure. Applying a delta twice changes nothing, a delta that skips words is
refused: offsets make the stream exact whatever was lost or repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from workspaces.events.types import Delta, Header


class Applied(Enum):
    NEW = "new"
    KNOWN = "known"
    GAP = "gap"


class LivePart:
    __slots__ = ("_chunks", "header", "length")

    def __init__(self, header: Header, text: str = "") -> None:
        self.header = header
        self._chunks = [text] if text else []
        self.length = len(text)

    def add(self, text: str) -> None:
        self._chunks.append(text)
        self.length += len(text)

    def text(self) -> str:
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def to_wire(self) -> dict[str, Any]:
        if self.header == "reasoning":
            return {"type": "reasoning", "data": {"thinking": self.text(), "signature": ""}}
        if isinstance(self.header, Mapping):
            call = {"id": self.header["id"], "name": self.header["name"], "input": self.text()}
            return {"type": "tool_call", "data": call}
        return {"type": "text", "data": {"text": self.text()}}


class LiveMessage:
    __slots__ = ("encoded", "message", "number", "parts", "size")

    def __init__(self, number: int, message: Mapping[str, Any]) -> None:
        self.number = number
        self.message = message
        self.parts = [_part_from_wire(part) for part in message.get("parts", ())]
        self.size = sum(part.length for part in self.parts)
        self.encoded: bytes | None = None  # a wire's cache, forgotten at each change

    def apply(self, delta: Delta) -> tuple[Applied, Delta]:
        """Adds what is new of the delta and returns just that part of it."""
        index = delta.part
        if index == len(self.parts) and delta.offset == 0:
            self.parts.append(LivePart(delta.header if delta.header is not None else "text"))
        elif index >= len(self.parts):
            return Applied.GAP, delta
        part = self.parts[index]
        known = part.length - delta.offset
        if known < 0:
            return Applied.GAP, delta
        if known > 0 or (not delta.text and delta.header is None):
            if known >= len(delta.text):
                return Applied.KNOWN, delta
            delta = Delta(delta.number, index, part.length, delta.text[known:], None)
        part.add(delta.text)
        self.size += len(delta.text)
        self.encoded = None
        return Applied.NEW, delta

    def covers(self, other: LiveMessage) -> bool:
        """Whether this one has every word of the other."""
        return len(self.parts) >= len(other.parts) and all(
            mine.length >= theirs.length
            for mine, theirs in zip(self.parts, other.parts, strict=False)
        )

    def to_wire(self) -> dict[str, Any]:
        return {**self.message, "parts": [part.to_wire() for part in self.parts]}


def _part_from_wire(raw: Mapping[str, Any]) -> LivePart:
    data = raw["data"]
    match raw["type"]:
        case "reasoning":
            return LivePart("reasoning", data.get("thinking", ""))
        case "tool_call":
            header = {"type": "tool_call", "id": data["id"], "name": data["name"]}
            return LivePart(header, data.get("input", ""))
        case _:
            return LivePart("text", data.get("text", ""))


def coalesced(items: Iterable[Delta]) -> list[Delta]:
    """Neighbours of one part joined: fewer, longer deltas that say the same."""
    joined: list[Delta] = []
    for delta in items:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.number == delta.number
            and last.part == delta.part
            and delta.header is None
        ):
            joined[-1] = Delta(
                last.number, last.part, last.offset, last.text + delta.text, last.header
            )
        else:
            joined.append(delta)
    return joined
