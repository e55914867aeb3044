"""Values that a provider requires back with its reasoning, in a reasoning part's ``signature``.

Pure. Each wire puts its own tag before its value, so that no other wire uses it.
Anthropic's own signatures have no tag, for compatibility with stored ones: they are
base64 and hold no colon.

OpenRouter's ``reasoning_details`` arrive in pieces, which belong together by their index. The
provider that signed, encrypted or summarised them requires exactly the same list back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from agents.llm.errors import BrokenStream
from agents.llm.history import AssistantTurn
from workspaces.log.parts import Part, Reasoning

Json = dict[str, Any]

RESPONSES = "openai-responses"
GEMINI = "gemini"
DETAILS = "reasoning-details"
LONGEST_SEAL = 1_000_000  # characters; no provider sends more
REDACTED = "redacted"  # the tag of thinking that Anthropic has encrypted


def sealed(tag: str, value: str) -> str:
    return f"{tag}:{value}"


def unsealed(tag: str, part: Reasoning) -> str:
    """Returns the stored value, or an empty string if another wire made the part."""
    ours, value = part.signature.partition(":")[::2]
    return value if ours == tag else ""


def is_untagged(part: Reasoning) -> bool:
    return bool(part.signature) and ":" not in part.signature


def is_from(turn: AssistantTurn, *, provider: str, model: str) -> bool:
    """Whether this provider's model made the reply; a missing name, as in older rows, matches."""
    return turn.provider in ("", provider) and turn.model in ("", model)


LIMIT = 1_000_000  # characters of one reply
MOST = 1_000
_APPENDED = ("text", "summary", "data", "signature")


class Details:
    """The details of one reply since the last ``taken``."""

    def __init__(self) -> None:
        self._items: list[Json] = []
        self._size = 0

    def add(self, raw: object) -> None:
        """Adds details. Raises ``BrokenStream`` beyond the limits."""
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
        """Returns the details since the last call as JSON; empty if there are none."""
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
        is_text = name in _APPENDED and isinstance(value, str) and isinstance(before, str)
        last[name] = before + value if is_text else value
