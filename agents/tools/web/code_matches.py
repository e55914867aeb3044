"""What Sourcegraph answered, read with care and shown with the lines around each match. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from agents.tools.contract import ToolRefusal
from agents.tools.limits import SEARCH_LINE_CHARS, cut_line

_MATCHES_PER_FILE = 10


@dataclass(frozen=True, slots=True)
class CodeFile:
    repository: str
    path: str
    url: str
    lines: tuple[str, ...]  # of the whole file; empty where it was not sent
    matches: tuple[tuple[int, str], ...]  # line number from 1, and the line

    def shown(self, around: int) -> str:
        head = f"{self.repository}: {self.path}"
        if self.url:
            head += f"\n{self.url}"
        blocks = [head]
        for first, end in self._ranges(around):
            lines = self.lines[first - 1 : end]
            blocks.append(_numbered(enumerate(lines, start=first)))
        blocks += [  # of a file that was not sent, or is shorter than it was said to be
            _numbered([match])
            for match in self.matches[:_MATCHES_PER_FILE]
            if match[0] > len(self.lines)
        ]
        left_out = len(self.matches) - _MATCHES_PER_FILE
        if left_out > 0:
            blocks.append(f"({left_out:,} more matches in this file.)")
        return "\n...\n".join(blocks)

    def _ranges(self, around: int) -> list[tuple[int, int]]:
        """The lines to show, from and to; what touches is one range."""
        ranges: list[tuple[int, int]] = []
        for number, _ in self.matches[:_MATCHES_PER_FILE]:
            if number > len(self.lines):
                continue
            first, end = max(1, number - around), min(number + around, len(self.lines))
            if ranges and first <= ranges[-1][1] + 1:
                first = ranges.pop()[0]
            ranges.append((first, end))
        return ranges


@dataclass(frozen=True, slots=True)
class CodeMatches:
    files: tuple[CodeFile, ...]
    match_count: int
    notes: tuple[str, ...]


def _numbered(lines: Iterable[tuple[int, str]]) -> str:
    return "\n".join(f"{n:>6}|{cut_line(line, SEARCH_LINE_CHARS)}" for n, line in lines)


def code_matches(body: bytes) -> CodeMatches:
    """Raises ``ToolRefusal`` where the answer is an error or not understood."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ToolRefusal("Sourcegraph's answer is not JSON.") from None
    if (errors := _items(answer, "errors")) and (told := _text(errors[0], "message")):
        raise ToolRefusal(f"Sourcegraph cannot search for this: {told[:500]}")
    results: Any = answer
    for name in ("data", "search", "results"):
        results = results.get(name) if isinstance(results, dict) else None
    if not isinstance(results, dict):
        raise ToolRefusal("Sourcegraph's answer is not understood: it may have changed.")
    files = tuple(_files(_items(results, "results")))
    count = results.get("matchCount")
    return CodeMatches(files, count if isinstance(count, int) else len(files), _notes(results))


def _files(rows: list[Any]) -> Iterator[CodeFile]:
    for row in rows:
        if not isinstance(row, dict) or row.get("__typename") != "FileMatch":
            continue
        repository, file = row.get("repository"), row.get("file")
        yield CodeFile(
            repository=_text(repository, "name"),
            path=_text(file, "path"),
            url=_text(file, "url"),
            lines=tuple(_text(file, "content").splitlines()),
            matches=tuple(sorted(_matches(_items(row, "lineMatches")))),
        )


def _matches(rows: list[Any]) -> Iterator[tuple[int, str]]:
    for row in rows:
        number = row.get("lineNumber") if isinstance(row, dict) else None
        if isinstance(number, int) and number >= 0:
            yield number + 1, _text(row, "preview")


def _notes(results: dict[str, Any]) -> tuple[str, ...]:
    notes: list[str] = []
    alert = results.get("alert")
    if title := _text(alert, "title"):
        notes.append(f"(Sourcegraph says: {title[:200]} {_text(alert, 'description')[:500]})")
    if results.get("limitHit") is True or _items(results, "timedout"):
        notes.append("(There is more than was searched: narrow the query.)")
    return tuple(notes)


def _items(row: Any, name: str) -> list[Any]:
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, list) else []


def _text(row: Any, name: str) -> str:
    value = row.get(name) if isinstance(row, dict) else None
    return value.replace("\0", "\ufffd") if isinstance(value, str) else ""
