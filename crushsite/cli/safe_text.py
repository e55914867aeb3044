"""Text of models, tools and files, made safe and complete for a terminal.

Whatever a terminal would act on, hide or not draw appears as ``⟨NAME⟩``. A literal
``⟨`` appears by its number, so that no text can imitate such a mark. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from crushsite.cli.tables import width_of

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


def visible_lines(text: str) -> list[str]:
    """Each line of the text. Only a line feed ends a line; one at the very end begins none."""
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
    """The line in pieces that fit; every character is in one of them."""
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
    """Whether a terminal draws something for it, and does nothing else."""
    return character.isprintable() and not (character in _INVISIBLE or _SELECTORS.match(character))


def _empty_lines(count: int) -> list[str]:
    return [""] * count if count <= MOST_EMPTY_LINES else [f"⟨{count:,} empty lines⟩"]
