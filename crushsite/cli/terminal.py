"""The user's terminal: what may be written on it, and what is typed.

Text of models, tools and files is made safe and complete: characters that a terminal would
interpret, hide or not draw appear as ``⟨NAME⟩``. A literal ``⟨`` appears as its code point, so that
no text can imitate such a mark.

Text that does not fit is shown one page at a time. Input typed before a prompt appeared is
discarded, so that it cannot approve something not yet shown.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import sys
import termios
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

TAB_WIDTH = 4
LONGEST_INDENT = 40
LONGEST_GAP = 15
MOST_EMPTY_LINES = 4
MOST_MARKS = 2  # combining characters on one letter; more would paint over the lines around it

_NAMES = {"\0": "NUL", "\a": "BEL", "\b": "BS", "\n": "LF", "\r": "CR", "\x1b": "ESC"}
_NAMES["\x7f"] = "DEL"
_OURS = "⟨⟩⇥"
# Printable by their Unicode categories, but drawn as nothing: fillers, joiners, selectors.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\U0001d159")
_SELECTORS = re.compile("[\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_TOKEN = re.compile(" +|[^ ]", re.DOTALL)

LINE_BYTES = 4096
NARROW = 16  # columns: below this no margin is drawn
FULL_SIZE = (80, 24)  # of a terminal that reports none
FIRST, NEXT = "│ ", "┊ "  # the margin of a line, and of its continuation
NO = {"n", "no"}
_MORE = "-- {left} more line{s}: Enter shows them, n denies -- "


# -- columns


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines with their cells under their headings; numbers to the right. No trailing space."""
    table = [list(headings), *(list(row) for row in rows)]
    widths = [max(width_of(row[index]) for row in table) for index in range(len(headings))]
    is_number = [
        bool(rows) and all(row[index].replace(".", "", 1).isdecimal() for row in rows)
        for index in range(len(headings))
    ]
    return "\n".join(
        "  ".join(
            _padded(cell, width, to_right=right)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ).rstrip()
        for row in table
    )


def cut(text: str, width: int) -> str:
    """One line of at most this width, without control characters."""
    line = "".join(c for c in " ".join(text.split()) if c.isprintable())
    if width_of(line) <= width:
        return line
    while line and width_of(line) > width - 1:
        line = line[:-1]
    return f"{line}…"


def width_of(text: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _padded(text: str, width: int, *, to_right: bool) -> str:
    space = " " * (width - width_of(text))
    return space + text if to_right else text + space


# -- safe text


def visible_lines(text: str) -> list[str]:
    """Each line of the text. Only a line feed ends a line; one at the end adds no empty line."""
    lines: list[str] = []
    empty = 0
    for line in text.removesuffix("\n").split("\n"):
        if not line:
            empty += 1
            continue
        lines += _empty_lines(empty)
        empty = 0
        lines.append(visible(line))
    return [*lines, *_empty_lines(empty)]


def visible(text: str) -> str:
    """The text on one line."""
    if text.isascii() and text.isprintable() and "  " not in text and not text.endswith(" "):
        return text  # nearly every line
    return "".join(_characters(text))


def wrapped(line: str, width: int) -> list[str]:
    """Splits the line into pieces of at most this width, without losing a character."""
    if line.isascii() and len(line) <= width:
        return [line]
    pieces, piece, used = [], "", 0
    for character in line:
        size = width_of(character)
        if piece and used + size > width:
            pieces.append(piece)
            piece, used = "", 0
        piece += character
        used += size
    return [*pieces, piece]


def _characters(text: str) -> Iterator[str]:
    column = marks = 0
    for token in _TOKEN.finditer(text):
        character = token[0]
        marks = marks + 1 if unicodedata.combining(character[0]) else 0
        if character[0] == " ":
            shown = _blanks(token)
        elif character == "\t":
            shown = "⇥".ljust(TAB_WIDTH - column % TAB_WIDTH)
        elif is_seen(character) and character not in _OURS and marks <= MOST_MARKS:
            shown = character
        else:
            shown = f"⟨{_NAMES.get(character) or f'U+{ord(character):04X}'}⟩"
        column += width_of(shown)
        yield shown


def _blanks(run: re.Match[str]) -> str:
    count = len(run[0])
    if run.end() == len(run.string):
        return f"⟨{count:,} blank{'' if count == 1 else 's'} at the end⟩"
    longest = LONGEST_GAP if run.start() else LONGEST_INDENT
    return run[0] if count <= longest else f"⟨{count:,} blanks⟩"


def is_seen(character: str) -> bool:
    """Whether a terminal draws something for the character and does nothing else."""
    return character.isprintable() and not (character in _INVISIBLE or _SELECTORS.match(character))


def _empty_lines(count: int) -> list[str]:
    return [""] * count if count <= MOST_EMPTY_LINES else [f"⟨{count:,} empty lines⟩"]


# -- output and input


class UserTerminal:
    """The terminal on the process's standard input."""

    def __init__(self, keys: int, screen: int) -> None:
        self._keys = keys
        self._screen = screen

    @classmethod
    def of_this_process(cls) -> Self | None:
        """``None`` if nobody can type, or if nothing can be shown to the person who types."""
        if not sys.stdin.isatty():
            return None
        keys = sys.stdin.fileno()
        # Standard error may be a file, but a request must be shown where its answer is typed.
        if fcntl.fcntl(keys, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR:
            return cls(keys, keys)
        with suppress(OSError):
            return cls(keys, os.open(os.ttyname(keys), os.O_WRONLY | os.O_NOCTTY))
        return None

    def write(self, text: str) -> None:
        """Writes the text. Raises ``OSError`` when the terminal is gone."""
        rest = text.encode(sys.stderr.encoding or "utf-8", errors="backslashreplace")
        while rest:
            rest = rest[os.write(self._screen, rest) :]

    def end_line(self) -> None:
        """Ends the line of a prompt, so that later output begins on a new line."""
        with suppress(OSError):
            self.write("\n")

    async def ask(self, prompt: str) -> str:
        """Returns the next line typed, with its line feed; empty when the terminal is closed."""
        with suppress(termios.error):
            termios.tcflush(self._keys, termios.TCIFLUSH)
        self.write(prompt)
        return await self.line()

    async def line(self) -> str:
        """Reads a line without a thread, which would outlive a question answered elsewhere."""
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._keys, ready.set_result, None)
        try:
            await ready
        finally:
            loop.remove_reader(self._keys)
        # A terminal gives whole lines.
        try:
            return os.read(self._keys, LINE_BYTES).decode(errors="replace")
        except OSError:  # its other side is gone
            return ""

    async def show(self, heading: str, lines: Sequence[str], *, below: str) -> bool:
        """Shows every line. ``below`` must fit under the last page.

        Returns ``False`` if the person refuses before everything was shown.
        """
        drawn = [heading, *lines]
        below_width = [width_of(row) for row in below.split("\n")]
        line = offset = 0  # where the next page begins
        while True:
            columns, rows = self._size()  # may have changed since the last page
            pieces = list(_pieces(drawn, columns, line=line, offset=offset))
            height = max(1, rows - 1 - sum(1 + width // columns for width in below_width))
            self.write("".join(f"{piece.text}\n" for piece in pieces[:height]))
            if len(pieces) <= height:
                return True
            line, offset = pieces[height].line, pieces[height].offset
            if not await self._wants_more(len(pieces) - height):
                return False

    async def _wants_more(self, left: int) -> bool:
        while True:
            typed = await self.ask(_MORE.format(left=f"{left:,}", s="" if left == 1 else "s"))
            if not typed or typed.strip().lower() in NO:
                return False
            if not typed.strip():
                return True
            self.write("  You can answer after the last line: Enter shows the rest.\n")

    def _size(self) -> tuple[int, int]:
        with suppress(OSError):
            columns, rows = os.get_terminal_size(self._screen)
            return columns or FULL_SIZE[0], rows or FULL_SIZE[1]
        return FULL_SIZE


@dataclass(frozen=True, slots=True)
class _Piece:
    """The text of one row."""

    line: int
    offset: int
    text: str


def _pieces(lines: Sequence[str], columns: int, *, line: int, offset: int) -> Iterator[_Piece]:
    """The rows from there to the end. All but the heading have a margin, which no text can imitate."""
    while line < len(lines):
        first, further = ("", "") if columns < NARROW or line == 0 else (FIRST, NEXT)
        for piece in wrapped(lines[line][offset:], columns - len(first)):
            margin = first if offset == 0 else further
            yield _Piece(line, offset, margin + piece)
            offset += len(piece)
        line, offset = line + 1, 0
