"""One replacement of text by text: its arguments and its application.

Pure; edit and multiedit share it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.tools import arguments
from agents.tools.contract import ToolRefusal
from agents.tools.limits import MAX_TEXT_BYTES

PROPERTIES: Mapping[str, Any] = {
    "old_string": {
        "type": "string",
        "description": "The exact text to replace, which must occur once; empty creates a file.",
    },
    "new_string": {"type": "string", "description": "The new text; empty deletes."},
    "replace_all": {
        "type": "boolean",
        "description": "Replace every occurrence (default false).",
    },
}


@dataclass(frozen=True, slots=True)
class Replacement:
    old_string: str
    new_string: str
    replace_all: bool = False

    def as_arguments(self) -> dict[str, Any]:
        return {
            "old_string": self.old_string,
            "new_string": self.new_string,
            "replace_all": self.replace_all,
        }


def parse(given: Mapping[str, Any], *, within: str = "") -> Replacement:
    return Replacement(
        arguments.text(given, "old_string", max_bytes=MAX_TEXT_BYTES, within=within),
        arguments.text(given, "new_string", max_bytes=MAX_TEXT_BYTES, within=within),
        arguments.flag(given, "replace_all", within=within),
    )


def apply(text: str, replacement: Replacement, *, newline: str = "\n") -> str:
    """Returns the new text. Raises ``ToolRefusal`` if the replacement cannot be applied."""
    old, new = replacement.old_string, replacement.new_string
    if newline != "\n":  # the text has \n line ends, so both strings need them too
        old, new = with_plain_ends(old), with_plain_ends(new)
    if not old:
        raise ToolRefusal("old_string is empty, which is only allowed to create a file.")
    if old == new:
        raise ToolRefusal("old_string and new_string are the same: there is nothing to change.")
    found = text.count(old)
    if not found and "\r\n" in text:
        # The line ends are mixed: a model sees no difference and may send either.
        return _apply_to_any_ends(text, replacement)
    _check_found(found, replacement)
    _check_size(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new)


def with_plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _apply_to_any_ends(text: str, replacement: Replacement) -> str:
    """Matches either line end; the new text gets the line ends of the text it replaces.

    It searches a copy with plain line ends, in linear time, and maps the positions back.
    """
    old = replacement.old_string.replace("\r\n", "\n")
    new = replacement.new_string.replace("\r\n", "\n")
    plain = text.replace("\r\n", "\n")
    _check_found(plain.count(old), replacement)
    with_returns = new.replace("\n", "\r\n")
    # The positions in the copy at which a carriage return is missing.
    missing = [match.start() - before for before, match in enumerate(re.finditer("\r\n", text))]
    pieces, done, at = list[str](), 0, plain.find(old)
    while at >= 0:
        end = at + len(old)
        first, last = bisect_left(missing, at), bisect_left(missing, end)
        pieces += [text[done : at + first], with_returns if last > first else new]
        done, at = end + last, plain.find(old, end)
    pieces.append(text[done:])
    _check_size(sum(map(len, pieces)))
    return "".join(pieces)


def _check_size(characters: int) -> None:
    """Checks the size before the text is built: many long replacements could fill the memory."""
    if characters > MAX_TEXT_BYTES:
        raise ToolRefusal(f"The file would be larger than {MAX_TEXT_BYTES:,} bytes.")


def _check_found(found: int, replacement: Replacement) -> None:
    if not found:
        raise ToolRefusal(
            "old_string was not found in the file. It must match exactly, with its white space and line breaks."
        )
    if found > 1 and not replacement.replace_all:
        raise ToolRefusal(
            f"old_string was found {found:,} times. Add lines around it until it is unique, or set replace_all."
        )
