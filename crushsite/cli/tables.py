"""Aligned columns for terminals. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


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
    """One line of at most this width, with nothing in it that steers a terminal."""
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
