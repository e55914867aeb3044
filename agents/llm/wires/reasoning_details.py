"""OpenRouter's ``reasoning_details``: gathered from a stream, kept, and given back.

Pure. They come in pieces that belong together by their index; whoever made them
(signed, encrypted, summarised) wants the very same list back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from agents.llm.errors import BrokenStream
from agents.llm.reasoning_signatures import DETAILS, unsealed
from workspaces.log.parts import Part, Reasoning

Json = dict[str, Any]

LIMIT = 1_000_000  # characters of one reply
MOST = 1_000
_GROWING = ("text", "summary", "data", "signature")


class Details:
    """Those of one reply, until they are taken."""

    def __init__(self) -> None:
        self._items: list[Json] = []
        self._size = 0

    def add(self, raw: object) -> None:
        """Raises ``BrokenStream`` when there is no end to them."""
        for piece in raw if isinstance(raw, list) else ():
            if not isinstance(piece, dict):
                continue
            self._size += sum(len(value) for value in piece.values() if isinstance(value, str))
            if self._size > LIMIT or len(self._items) >= MOST:
                raise BrokenStream("The provider sent reasoning that is too large.")
            last = self._items[-1] if self._items else None
            if last is not None and _continues(last, piece):
                _grow(last, piece)
            else:
                self._items.append(dict(piece))

    def taken(self) -> str:
        """What has come since the last time, as JSON; empty if nothing has."""
        items, self._items = self._items, []
        return orjson.dumps(items).decode() if items else ""


def details_of(parts: Iterable[Part]) -> list[Json]:
    details: list[Json] = []
    for part in parts:
        if isinstance(part, Reasoning) and (kept := unsealed(DETAILS, part)):
            try:
                items = orjson.loads(kept)
            except orjson.JSONDecodeError:
                continue
            if isinstance(items, list):
                details.extend(item for item in items if isinstance(item, dict))
    return details


def _continues(last: Json, piece: Json) -> bool:
    return (
        piece.get("type") == last.get("type")
        and piece.get("index") == last.get("index")
        and piece.get("type") != "reasoning.encrypted"
    )


def _grow(last: Json, piece: Json) -> None:
    for name, value in piece.items():
        if value is None:
            continue
        before = last.get(name)
        is_text = name in _GROWING and isinstance(value, str) and isinstance(before, str)
        last[name] = before + value if is_text else value
