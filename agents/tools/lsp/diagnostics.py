"""The newest diagnostics of a language server for each file, within limits.

The store counts the reports for each file, so that a caller can wait for the report
that follows a change. The texts come from a server that is not trusted, and are cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from workspaces.storable import storable_text

_FILES = 2_000
_IN_A_FILE = 500
_MESSAGE_CHARS = 4_000
_WORD_CHARS = 200
_LARGEST = 2**31 - 1


class Severity(IntEnum):
    ERROR = 1
    WARNING = 2
    INFORMATION = 3
    HINT = 4


@dataclass(frozen=True, slots=True)
class Diagnostic:
    severity: Severity
    line: int
    character: int
    message: str
    source: str
    code: str
    wire: Mapping[str, Any] = field(repr=False)  # the format that clients receive


class DiagnosticStore:
    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._files: dict[str, tuple[Diagnostic, ...]] = {}
        self._reports: dict[str, tuple[int, int | None]] = {}  # reports, newest version
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self.count = 0

    def update(self, path: str, items: Sequence[Any], version: int | None = None) -> None:
        """Replaces a file's diagnostics with those of a new report from the server."""
        found = tuple(d for item in items[:_IN_A_FILE] if (d := _diagnostic(item)) is not None)
        before = self._files.pop(path, ())
        if found:
            self._files[path] = found
        self.count += len(found) - len(before)
        while len(self._files) > _FILES:
            self.count -= len(self._files.pop(next(iter(self._files))))
        times, _ = self._reports.pop(path, (0, None))
        self._reports[path] = (times + 1, version)
        while len(self._reports) > 2 * _FILES:
            self._reports.pop(next(iter(self._reports)))
        for future in self._waiting.pop(path, ()):
            if not future.done():
                future.set_result(None)
        if found != before:
            self._on_change()

    def of(self, path: str) -> tuple[Diagnostic, ...]:
        return self._files.get(path, ())

    def all(self) -> Mapping[str, tuple[Diagnostic, ...]]:
        return dict(self._files)

    def times(self, path: str) -> int:
        """Returns how many reports the file has had, as a start for ``wait_newer``."""
        return self._reports.get(path, (0, None))[0]

    async def wait_newer(self, path: str, *, times: int, version: int) -> None:
        """Waits for a report that can belong to this version. Has no timeout of its own."""
        while True:
            reports, for_version = self._reports.get(path, (0, None))
            if reports > times and (for_version is None or for_version >= version):
                return
            await self.wait_any(path)

    async def wait_any(self, path: str) -> None:
        """Waits for the next report on the file."""
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(path, set())
        waiting.add(future)
        try:
            await future
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(path) is waiting:
                del self._waiting[path]


def _diagnostic(item: Any) -> Diagnostic | None:
    if not isinstance(item, Mapping):
        return None
    span = _span(item.get("range"))
    message = item.get("message")
    if span is None or not isinstance(message, str):
        return None
    severity = item.get("severity")
    code = item.get("code")
    wire: dict[str, Any] = {"range": span, "message": _clean(message, _MESSAGE_CHARS)}
    known = severity in tuple(Severity) and not isinstance(severity, bool)
    wire["severity"] = int(severity or 0) if known else int(Severity.ERROR)
    if isinstance(code, int | str) and not isinstance(code, bool):
        wire["code"] = code if isinstance(code, int) else _clean(code, _WORD_CHARS)
    source = item.get("source")
    if isinstance(source, str) and source:
        wire["source"] = _clean(source, _WORD_CHARS)
    tags = item.get("tags")
    if isinstance(tags, list) and (known_tags := [tag for tag in tags[:4] if tag in (1, 2)]):
        wire["tags"] = known_tags
    return Diagnostic(
        severity=Severity(wire["severity"]),
        line=span["start"]["line"],
        character=span["start"]["character"],
        message=wire["message"],
        source=wire.get("source", ""),
        code=str(wire.get("code", "")),
        wire=wire,
    )


def _span(value: Any) -> dict[str, dict[str, int]] | None:
    if not isinstance(value, Mapping):
        return None
    start, end = _position(value.get("start")), _position(value.get("end"))
    return {"start": start, "end": end} if start and end else None


def _position(value: Any) -> dict[str, int] | None:
    if not isinstance(value, Mapping):
        return None
    line, character = value.get("line"), value.get("character")
    for number in (line, character):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _LARGEST:
            return None
    return {"line": int(line or 0), "character": int(character or 0)}


def _clean(text: str, limit: int) -> str:
    """Cuts a text and replaces characters that stores and clients do not accept."""
    cut = storable_text(text[:limit])
    return cut.encode(errors="replace").decode()
