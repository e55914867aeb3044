"""Glob patterns over relative paths: ``*``, ``?``, ``[…]``, ``**`` and ``{a,b}``.

A pattern without a slash matches a name at any depth, one with a slash the path
from the searched folder. The time of any match is at most proportional to the length
of the pattern times the length of the path. Pure.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from agents.tools.limits import MAX_PATTERN_CHARS

_MAX_ALTERNATIVES = 64
_ANY_DEPTH = None  # "**"


class BadPattern(Exception):
    """The pattern is invalid. The message gives the reason."""


class Pattern:
    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARS:
            raise BadPattern(f"The pattern is longer than {MAX_PATTERN_CHARS:,} characters.")
        self.written = pattern
        expanded = _expanded(pattern)
        self._alternatives = [_segments(one) for one in expanded]
        # Globs that the name of every match fits, for searchers that compare only names.
        self.names = tuple(one.rstrip("/").rpartition("/")[2] for one in expanded)

    @property
    def names_hidden(self) -> bool:
        """Whether the pattern names hidden files, like ``.github/**``."""
        return any(
            segment is not _ANY_DEPTH and segment.pattern.startswith(r"(?s:\.")
            for segments in self._alternatives
            for segment in segments
        )

    def matches(self, parts: Sequence[str]) -> bool:
        return any(_matches(segments, parts) for segments in self._alternatives)


def _segments(pattern: str) -> list[re.Pattern[str] | None]:
    pattern = pattern.removeprefix("./")
    anchored = "/" in pattern.rstrip("/")
    names = [name for name in pattern.split("/") if name]
    if not anchored:
        names = ["**", *names]
    segments: list[re.Pattern[str] | None] = []
    for name in names:
        if name != "**":
            # Since Python 3.9 these patterns backtrack at most by the product of the lengths.
            segments.append(re.compile(fnmatch.translate(name)))
        elif not segments or segments[-1] is not _ANY_DEPTH:
            segments.append(_ANY_DEPTH)
    if segments and segments[-1] is _ANY_DEPTH:  # "src/**": everything below, not src itself
        segments.append(re.compile(r"(?s:.+)\Z"))
    return segments


def _matches(segments: list[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Matches like ``*`` within a word: only the last ``**`` ever needs a retry."""
    at = place = 0
    again: tuple[int, int] | None = None
    while place < len(parts):
        segment = segments[at] if at < len(segments) else _ANY_DEPTH
        if at < len(segments) and segment is _ANY_DEPTH:
            again = (at, place)
            at += 1
        elif segment is not _ANY_DEPTH and segment.match(parts[place]):
            at += 1
            place += 1
        elif again is not None:
            again = (again[0], again[1] + 1)
            at, place = again[0] + 1, again[1]
        else:
            return False
    return all(segment is _ANY_DEPTH for segment in segments[at:])


def _expanded(pattern: str) -> list[str]:
    """Expands ``{a,b}``, also nested; an unmatched brace is literal. Raises ``BadPattern``."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(done) + len(waiting) > _MAX_ALTERNATIVES:
            raise BadPattern(
                f"The pattern has more than {_MAX_ALTERNATIVES} alternatives in braces."
            )
        one = waiting.pop(0)
        found = _innermost(one)
        if found is None:
            done.append(one)
            continue
        start, end = found
        waiting += [
            one[:start] + choice + one[end + 1 :] for choice in one[start + 1 : end].split(",")
        ]
    return done


def _innermost(pattern: str) -> tuple[int, int] | None:
    end = pattern.find("}")
    while end >= 0:
        start = pattern.rfind("{", 0, end)
        if start >= 0:
            return start, end
        end = pattern.find("}", end + 1)
    return None
