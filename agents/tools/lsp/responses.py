"""Converts responses of language servers to locations, symbols, calls and edits. Pure.

The input is the typed responses of the protocol's library. The number of items is limited.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.tools.lsp.peer import RequestFailed
from agents.tools.lsp.positions import Position, Span, TextEdit, path_of

MOST = 5_000  # locations in a response
_MOST_EDITS = 20_000
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class CodeLocation:
    path: Path
    span: Span


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    kind: str
    span: Span  # the whole definition, as the server defines it
    name_at: Position
    container: str = ""
    children: tuple[Symbol, ...] = ()


@dataclass(frozen=True, slots=True)
class CallEnd:
    """One side of calls: the caller or the callee."""

    name: str
    kind: str
    place: CodeLocation
    calls: int


def edits_in(found: Any) -> dict[Path, list[TextEdit]]:
    """Returns every file's edits. Raises ``RequestFailed`` if files would move."""
    by_path: dict[Path, list[TextEdit]] = {}
    changes = [(address, edits) for address, edits in (found.changes or {}).items()]
    if found.document_changes:
        # Both fields describe the same edits: apply only one of them.
        changes = []
        for change in found.document_changes:
            if not hasattr(change, "edits"):
                raise RequestFailed(
                    "The language server's edits would move or delete files, which is not supported."
                )
            changes.append((change.text_document.uri, change.edits))
    total = 0
    for address, edits in changes:
        path = path_of(address)
        total += len(edits)
        # A snippet, which was not requested, is not the literal text.
        is_plain = all(hasattr(edit, "new_text") for edit in edits)
        if path is None or total > _MOST_EDITS or not is_plain:
            raise RequestFailed(
                "The language server's edits are too many, or not plain text edits of files."
            )
        by_path.setdefault(path, []).extend(
            TextEdit(_span(edit.range), edit.new_text) for edit in edits
        )
    return by_path


def _span(found: Any) -> Span:
    return Span(
        Position(found.start.line, found.start.character),
        Position(found.end.line, found.end.character),
    )


def places_in(found: Iterable[Any]) -> list[CodeLocation]:
    """Converts locations and location links, in order and without duplicates."""
    places: dict[tuple[Path, Position], CodeLocation] = {}
    for item in list(found)[:MOST]:
        address = getattr(item, "uri", None) or getattr(item, "target_uri", None)
        span = getattr(item, "range", None) or getattr(item, "target_selection_range", None)
        path = path_of(address)
        if path is not None and span is not None:
            place = CodeLocation(path, _span(span))
            places.setdefault((path, place.span.start), place)
    return [places[key] for key in sorted(places, key=lambda k: (str(k[0]), k[1]))]


def symbol_in(found: Any, depth: int = 0) -> Symbol:
    location = getattr(found, "location", None)
    span = _span(location.range if location is not None else found.range)
    children = (getattr(found, "children", None) or []) if depth < _DEEPEST else []
    return Symbol(
        name=str(found.name),
        kind=_kind(found.kind),
        span=span,
        name_at=span.start if location is not None else _span(found.selection_range).start,
        container=str(getattr(found, "container_name", None) or ""),
        children=tuple(symbol_in(child, depth + 1) for child in children[:MOST]),
    )


def call_end_in(item: Any, ranges: Any) -> CallEnd | None:
    path = path_of(item.uri)
    if path is None:
        return None
    place = CodeLocation(path, _span(item.selection_range))
    return CallEnd(str(item.name), _kind(item.kind), place, len(ranges or []))


def _kind(kind: Any) -> str:
    name = getattr(kind, "name", "")
    return str(name) if name else "Symbol"
