"""Splits a command into words, roughly as a shell does, to find the files that it names. Pure."""

from __future__ import annotations

import re

COMMAND_LIMIT = 64 << 10
# The file after ``>`` or ``>>``, which the command writes. (``>(`` begins a program, ``>&`` a
# number.)
_WRITTEN = re.compile(r">>?\s*[^\s'\"`;|&()<>$]+")
_SHELL_WORD = re.compile(r"[^\s'\"`;|&()<>]+")
_QUOTED = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'")


def words_of(command: str) -> list[str]:
    """Returns the words, and each quoted text as a whole, without files that are only written."""
    text = command[:COMMAND_LIMIT]
    quoted = [one or other for one, other in _QUOTED.findall(text)]
    return _SHELL_WORD.findall(_WRITTEN.sub(" ", text)) + [each for each in quoted if " " in each]


def only_names_options(line: str) -> bool:
    """``option context-path docs/STYLE.md``: such files are read, and often edited."""
    return line.lstrip().startswith("option ") and not any(mark in line for mark in "$`<;|&")
