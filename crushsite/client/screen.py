"""A terminal with finished lines above, and a region below that is drawn again and again.

Finished lines scroll away like the output of any command. The region shows what still changes, and
never more than the terminal's height. All text was made safe by its source.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from crushsite.cli.terminal import FULL_SIZE, UserTerminal, width_of

if TYPE_CHECKING:
    from rich.console import Console

REDRAW_SECONDS = 0.06
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_CLEAR_BELOW = "\r\x1b[J"
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
NARROWEST = 20


class KeyTerminal(UserTerminal):
    """A terminal whose questions are answered with one key, without Enter."""

    @override
    async def ask(self, prompt: str) -> str:
        with suppress(termios.error):
            termios.tcflush(self._keys, termios.TCIFLUSH)
        self.write(prompt)
        key = await self.key()
        self.write("\n" if key in {"\r", "\n"} else f"{key if key.isprintable() else ''}\n")
        return key

    async def ask_line(self, prompt: str) -> str:
        """Returns a whole line, as the terminal lets the person edit it."""
        return await UserTerminal.ask(self, prompt)

    async def key(self) -> str:
        """Returns the next key, which is not shown; empty when the terminal is closed."""
        with self._single_keys():
            return (await self.line())[:1]  # keys that send more characters have no meaning here

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self._size()

    @contextmanager
    def _single_keys(self) -> Iterator[None]:
        try:
            before = termios.tcgetattr(self._keys)
        except termios.error:  # the terminal is gone
            yield
            return
        tty.setcbreak(self._keys, termios.TCSANOW)
        try:
            yield
        finally:
            with suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSANOW, before)


class LineTerminal(KeyTerminal):
    """The same for a tool's questions: only yes or no is one key, other answers are lines."""

    @override
    async def ask(self, prompt: str) -> str:
        if prompt.lstrip().startswith("[y]es"):
            return await super().ask(prompt)
        return await self.ask_line(prompt)


class Screen:
    """Draws on a terminal. ``region`` returns what the lower part shows, for a width and a height."""

    def __init__(self, terminal: KeyTerminal, region: Callable[[int, int], Sequence[Any]]) -> None:
        self._terminal = terminal
        self._region = region
        self._drawn: list[int] = []  # the widths of the region's lines
        self._held = 0
        self._waiting: list[Any] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Draws from here on; at the end the region disappears."""
        with suppress(NotImplementedError, RuntimeError):
            self._loop.add_signal_handler(signal.SIGWINCH, self.soon)
        self._terminal.write(_HIDE)
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
            with suppress(OSError):
                self._terminal.write(self._cleared() + _SHOW)
            with suppress(NotImplementedError, RuntimeError):
                self._loop.remove_signal_handler(signal.SIGWINCH)

    def print(self, *parts: Any) -> None:
        """Adds finished lines above the region."""
        if self._held:
            self._waiting += parts
            return
        width, _ = self._size()
        text = self._cleared() + "".join(rendered(part, width) for part in parts)
        self._terminal.write(text + self._region_text())

    def soon(self) -> None:
        """Draws the region again after a moment."""
        if self._timer is None:
            self._timer = self._loop.call_later(REDRAW_SECONDS, self._redraw)

    def _redraw(self) -> None:
        self._timer = None
        if not self._held:
            with suppress(OSError):  # the keys report that the terminal is gone
                self._terminal.write(self._cleared() + self._region_text())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Removes the region, and keeps output back meanwhile."""
        if not self._held:
            self._terminal.write(self._cleared() + _SHOW)
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if not self._held:
                waiting, self._waiting = self._waiting, []
                with suppress(OSError):
                    self._terminal.write(_HIDE)
                    self.print(*waiting)

    def clear_typed(self, typed: str) -> None:
        """Removes a typed line, which ended with Enter."""
        columns = max(self._terminal.size()[0], 1)
        rows = max(1, -(-width_of(typed.rstrip("\n")) // columns))
        with suppress(OSError):
            self._terminal.write(f"\x1b[{rows}A{_CLEAR_BELOW}")

    def _size(self) -> tuple[int, int]:
        columns, rows = self._terminal.size()
        return max(columns, NARROWEST), rows

    def _region_text(self) -> str:
        width, rows = self._size()
        height = max(1, rows - 1)
        # One column stays free: a full line would wrap on some terminals.
        text = "".join(rendered(part, width - 1) for part in self._region(width - 1, height))
        lines = text.split("\n")[:-1][-height:]
        self._drawn = [width_of(_ESCAPES.sub("", line)) for line in lines]
        return "\n".join(lines)

    def _cleared(self) -> str:
        """Moves to the region's first line, also if the terminal has become narrower meanwhile."""
        columns = max(self._terminal.size()[0], 1)
        rows = sum(max(1, -(-width // columns)) for width in self._drawn)
        self._drawn = []
        return (f"\x1b[{rows - 1}A" if rows > 1 else "") + _CLEAR_BELOW


def console(width: int) -> Console:
    """A console that renders to a text, with colours unless ``NO_COLOR`` is set."""
    from rich.console import Console  # noqa: PLC0415  only commands at a terminal draw

    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=True,
        color_system=None if is_plain else "standard",
        no_color=is_plain,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def rendered(part: Any, width: int) -> str:
    """The part as lines of a terminal."""
    drawing = console(width)
    drawing.print(part)
    text: str = drawing.file.getvalue()  # type: ignore[attr-defined]  # the text of ``console``
    return text


def size_of_terminal() -> tuple[int, int]:
    """Columns and rows of standard output's terminal."""
    try:
        columns, rows = os.get_terminal_size(1)
    except OSError:
        return FULL_SIZE
    return columns or FULL_SIZE[0], rows or FULL_SIZE[1]
