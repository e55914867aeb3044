"""What a check of ``doctor`` has found: a verdict, and the reason with what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """As the report shows it."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    what: str
    text: str

    @property
    def is_failure(self) -> bool:
        return self.level is Level.FAIL


def ok(what: str, text: str) -> Finding:
    return Finding(Level.OK, what, text)


def warn(what: str, text: str) -> Finding:
    return Finding(Level.WARN, what, text)


def fail(what: str, text: str) -> Finding:
    return Finding(Level.FAIL, what, text)
