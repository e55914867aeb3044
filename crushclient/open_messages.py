"""A message that is still being written: its parts, and the deltas that extend them. Pure.

Text is placed by its offset. Text that is known already adds nothing, text after a gap is not
accepted, and text that contradicts the known text replaces it: so any repetition of any pieces
gives the same message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

# The field that contains the text of a part which grows.
TEXT_FIELDS: Mapping[str, str] = {"text": "text", "reasoning": "thinking", "tool_call": "input"}

Wire = Mapping[str, Any]
Header = str | Mapping[str, Any] | None


class Fit(Enum):
    """How text fits to the known text of its part."""

    NEW = "new"
    KNOWN = "known"
    GAP = "gap"
    CONTRADICTION = "contradiction"  # it has replaced the text after its offset


class Piece(NamedTuple):
    """Text that was added to a part."""

    part: int
    offset: int
    text: str
    is_first: bool  # the part began with it


class OpenPart:
    """``data`` has the fields of the part without its text."""

    __slots__ = ("_chunks", "data", "kind", "length")

    def __init__(self, kind: str, data: Mapping[str, Any], text: str = "") -> None:
        self.kind = kind
        self.data = data
        self._chunks = [text] if text else []
        self.length = len(text)

    @classmethod
    def from_wire(cls, wire: Wire) -> OpenPart:
        kind, data = wire["type"], wire["data"]
        field = TEXT_FIELDS.get(kind)
        if field is None:
            return cls(kind, data)
        rest = {name: value for name, value in data.items() if name != field}
        return cls(kind, rest, data.get(field, ""))

    @property
    def grows(self) -> bool:
        return self.kind in TEXT_FIELDS

    @property
    def text(self) -> str:
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def append(self, text: str) -> None:
        self._chunks.append(text)
        self.length += len(text)

    def replace(self, text: str) -> None:
        self._chunks = [text] if text else []
        self.length = len(text)

    def to_wire(self) -> dict[str, Any]:
        field = TEXT_FIELDS.get(self.kind)
        data = dict(self.data) if field is None else {**self.data, field: self.text}
        return {"type": self.kind, "data": data}


class OpenMessage:
    """``number`` is that of the event that started the message; deltas name it."""

    __slots__ = ("head", "number", "parts")

    def __init__(self, number: int, message: Wire) -> None:
        self.number = number
        self.head = {name: value for name, value in message.items() if name != "parts"}
        self.parts = [OpenPart.from_wire(part) for part in message.get("parts") or ()]

    @property
    def id(self) -> str:
        return str(self.head["id"])

    @property
    def session_id(self) -> str:
        return str(self.head["session_id"])

    def add(self, index: int, offset: int, text: str, header: Header) -> tuple[Fit, Piece]:
        """Adds the text of a delta; returns how it fits, and the piece that was new."""
        is_first = index == len(self.parts) and offset == 0 and header is not None
        if is_first:
            self.parts.append(_part_of(header))
        elif not 0 <= index < len(self.parts):
            return Fit.GAP, Piece(index, offset, "", is_first=False)
        part = self.parts[index]
        known = part.length - offset
        if known < 0 or not part.grows:
            return Fit.GAP, Piece(index, offset, "", is_first=False)
        if known == 0:
            part.append(text)
            return Fit.NEW, Piece(index, offset, text, is_first)
        repeated, new = text[:known], text[known:]
        whole = part.text
        if whole[offset : offset + len(repeated)] != repeated:
            part.replace(whole[:offset] + text)
            return Fit.CONTRADICTION, Piece(index, offset, text, is_first=False)
        if not new:
            return Fit.KNOWN, Piece(index, offset, "", is_first=False)
        offset = part.length
        part.append(new)
        return Fit.NEW, Piece(index, offset, new, is_first=False)

    def extend(self, parts: Iterable[Wire]) -> list[Piece] | None:
        """Adds the text of another state of the message; returns what was new.

        The other state may have less text. ``None``: it contradicts this one, which is unchanged.
        """
        others = [OpenPart.from_wire(part) for part in parts]
        for mine, other in zip(self.parts, others, strict=False):
            shorter = min(mine.length, other.length)
            if mine.kind != other.kind or (
                mine.text[:shorter] != other.text[:shorter]
                if mine.grows
                else mine.data != other.data
            ):
                return None
        pieces = []
        for index, other in enumerate(others):
            is_first = index == len(self.parts)
            if is_first:
                self.parts.append(OpenPart(other.kind, other.data))
            part = self.parts[index]
            part.data = other.data
            if other.length > part.length or (is_first and part.grows):
                piece = Piece(index, part.length, other.text[part.length :], is_first)
                part.append(piece.text)
                pieces.append(piece)
        return pieces

    def with_text(self, message: Wire) -> dict[str, Any] | None:
        """Returns the complete message, where parts have a ``length`` instead of known text.

        ``None``: the known text has another length.
        """
        parts = []
        for index, wire in enumerate(message.get("parts") or ()):
            if "length" in wire["data"]:
                known = self.parts[index] if index < len(self.parts) else None
                if known is None or known.length != wire["data"]["length"]:
                    return None
                wire = _with_text(wire, known.text)
            parts.append(wire)
        return {**message, "parts": parts}

    def to_wire(self) -> dict[str, Any]:
        return {**self.head, "parts": [part.to_wire() for part in self.parts]}


def lacks_text(message: Wire) -> bool:
    """Whether parts of the message have their length instead of their text."""
    return any("length" in part["data"] for part in message.get("parts") or ())


def _part_of(header: Header) -> OpenPart:
    if isinstance(header, Mapping):
        return OpenPart("tool_call", {"id": header.get("id", ""), "name": header.get("name", "")})
    return OpenPart(header or "text", {"signature": ""} if header == "reasoning" else {})


def _with_text(wire: Wire, text: str) -> dict[str, Any]:
    rest = {name: value for name, value in wire["data"].items() if name != "length"}
    return {"type": wire["type"], "data": {**rest, TEXT_FIELDS[wire["type"]]: text}}
