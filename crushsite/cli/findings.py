"""What ``doctor`` reports: one finding a line. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    what: str
    said: str


def ok(what: str, said: str) -> Finding:
    return Finding(Level.OK, what, said)


def warn(what: str, said: str) -> Finding:
    return Finding(Level.WARN, what, said)


def fail(what: str, said: str) -> Finding:
    return Finding(Level.FAIL, what, said)


def mark(level: Level) -> str:
    match level:
        case Level.OK:
            return "ok"
        case Level.WARN:
            return "warn"
        case Level.FAIL:
            return "FAIL"
    assert_never(level)
