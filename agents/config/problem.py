"""One error in a configuration, with what a person needs to correct it.

A problem never carries a value of the file or of the environment: only where
it is and what is expected there.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class Problem:
    file: str  # empty: the problem is in no single file
    line: int  # counted from 1; 0: the file as a whole
    column: int
    message: str
    key: str = ""  # the dotted key, where one is known
    is_warning: bool = False  # nothing is broken, but a person should read it

    @override
    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return ": ".join(part for part in (where, self.key, self.message) if part)


def problem_with_file(file: str, message: str) -> Problem:
    return Problem(file, 0, 0, message)


def problem_with_key(key: str, message: str, *, file: str = "") -> Problem:
    return Problem(file, 0, 0, message, key)


def warning_with_key(key: str, message: str, *, file: str = "") -> Problem:
    return Problem(file, 0, 0, message, key, is_warning=True)
