"""Converts between positions of the protocol and offsets in Python strings. Pure.

The protocol counts a line's columns in UTF-16 units unless a server declares another
encoding. Line ends are ``\\n``, ``\\r\\n`` and ``\\r``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agents.tools.limits import MAX_PATH_BYTES


def address_of(path: str | Path) -> str:
    return Path(path).as_uri()


def path_of(address: object) -> Path | None:
    """Returns an absolute, normalized path; ``None`` unless the URL is a file of this machine."""
    if not isinstance(address, str) or len(address) > 4 * MAX_PATH_BYTES:
        return None
    try:
        parts = urlsplit(address)
        path = unquote(parts.path, errors="strict")
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or "\0" in path:
        return None
    if not path.startswith("/") or len(path.encode(errors="replace")) > MAX_PATH_BYTES:
        return None
    return Path(os.path.normpath(path))


UTF_16 = "utf-16"
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position in the protocol: both numbers from 0, ``character`` in the server's units."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Span:
    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class TextEdit:
    span: Span
    text: str


class EditsClash(Exception):
    """Edits of one file overlap."""


class PositionedText:
    """A text that converts between positions and offsets."""

    def __init__(self, text: str, encoding: str = UTF_16) -> None:
        self.text = text
        self._encoding = encoding
        ends = [(m.start(), m.end()) for m in _LINE_END.finditer(text)]
        self._starts = [0, *(end for _, end in ends)]
        self._ends = [*(start for start, _ in ends), len(text)]

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def line(self, number: int) -> str:
        """Returns a line without its line end; empty after the last line."""
        if not 0 <= number < len(self._starts):
            return ""
        return self.text[self._starts[number] : self._ends[number]]

    def offset(self, position: Position) -> int:
        """Returns the offset of a position; one outside of the text becomes the nearest inside."""
        if position.line >= len(self._starts):
            return len(self.text)
        line = self.line(position.line)
        return self._starts[position.line] + column(line, position.character, self._encoding)

    def position_in(self, line: int, letters: int) -> Position:
        """Returns the position after a number of characters in a line."""
        return Position(line, units(self.line(line)[:letters], self._encoding))

    def position(self, offset: int) -> Position:
        low, high = 0, len(self._starts) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._starts[middle] <= offset else (low, middle - 1)
        before = self.text[self._starts[low] : offset]
        return Position(low, units(before, self._encoding))

    def apply(self, edits: Sequence[TextEdit]) -> str:
        """Returns the text after the edits, which all refer to the original text.

        Raises ``EditsClash``.
        """
        placed = [
            (self.offset(edit.span.start), self.offset(edit.span.end), index, edit.text)
            for index, edit in enumerate(edits)
        ]
        pieces: list[str] = []
        reached = 0
        # Insertions at the same position keep their order.
        for start, end, _, text in sorted(placed, key=lambda p: (p[0], p[1], p[2])):
            if start < reached or end < start:
                raise EditsClash
            pieces += [self.text[reached:start], text]
            reached = end
        return "".join([*pieces, self.text[reached:]])


def units(text: str, encoding: str = UTF_16) -> int:
    if text.isascii() or encoding == "utf-32":
        return len(text)
    if encoding == "utf-8":
        return len(text.encode(errors="surrogatepass"))
    return len(text) + sum(letter > "\uffff" for letter in text)


def column(line: str, count: int, encoding: str = UTF_16) -> int:
    """Converts a count of units to characters; a unit inside a character counts as before it."""
    if line.isascii() or encoding == "utf-32":
        return max(0, min(count, len(line)))
    reached = 0
    for index, letter in enumerate(line):
        reached += units(letter, encoding)
        if reached > count:
            return index
    return len(line)
