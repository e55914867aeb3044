"""The terminal at which a person answers: what is shown there, and the lines typed there.

A text that does not fit is shown a page at a time. What was typed before a prompt
appeared is discarded, so it can approve nothing that was not shown yet.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from crushsite.cli.safe_text import wrapped
from crushsite.cli.tables import width_of

LINE_BYTES = 4096
NARROW = 16  # columns: below this the margin goes
FULL_SIZE = (80, 24)  # of a terminal that does not know its own
FIRST, NEXT = "│ ", "┊ "  # the margin of a line, and of its continuation
NO = {"n", "no"}
_MORE = "-- {left} more line{s}: Enter shows them, n denies -- "


class UserTerminal:
    """On the process's standard input."""

    def __init__(self, keys: int, screen: int) -> None:
        self._keys = keys
        self._screen = screen

    @classmethod
    def of_this_process(cls) -> Self | None:
        """``None`` where nobody can type, or where nothing can be shown to the person who types."""
        if not sys.stdin.isatty():
            return None
        keys = sys.stdin.fileno()
        # Standard error may be a file: what is to be approved must be seen where it is typed.
        if fcntl.fcntl(keys, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR:
            return cls(keys, keys)
        with suppress(OSError):
            return cls(keys, os.open(os.ttyname(keys), os.O_WRONLY | os.O_NOCTTY))
        return None

    def write(self, text: str) -> None:
        """Raises ``OSError`` when the terminal is gone."""
        rest = text.encode(sys.stderr.encoding or "utf-8", errors="backslashreplace")
        while rest:
            rest = rest[os.write(self._screen, rest) :]

    def end_line(self) -> None:
        """What comes next begins on a line of its own, not behind a prompt."""
        with suppress(OSError):
            self.write("\n")

    async def ask(self, prompt: str) -> str:
        """The next line that is typed, with its end; empty when the terminal is closed."""
        with suppress(termios.error):
            termios.tcflush(self._keys, termios.TCIFLUSH)
        self.write(prompt)
        return await self.line()

    async def line(self) -> str:
        """Without a thread, which would outlive a question that is answered elsewhere."""
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
        """Shows every line. ``below`` is what must fit under the last page.

        ``False`` when the person refuses before all was shown.
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
            self.write("  Only after the last line was shown.\n")

    def _size(self) -> tuple[int, int]:
        with suppress(OSError):
            columns, rows = os.get_terminal_size(self._screen)
            return columns or FULL_SIZE[0], rows or FULL_SIZE[1]
        return FULL_SIZE


@dataclass(frozen=True, slots=True)
class _Piece:
    """What is drawn on one row."""

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
