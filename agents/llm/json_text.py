"""Reads untrusted JSON of a provider or a model without raising; writes request bodies.

Pure. Uses orjson first. The slower standard parser reads what orjson refuses: a lone
surrogate, from servers that cut an emoji in two.
"""

from __future__ import annotations

import json
from typing import Any

import orjson


def parse_object(text: bytes | str) -> dict[str, Any] | None:
    """Returns the object, or ``None`` if the text is not a JSON object."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = _with_halves_of_pairs(text)
    return value if isinstance(value, dict) else None


def _with_halves_of_pairs(text: bytes | str) -> object:
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return None
    try:
        clean = json.dumps(json.loads(raw), ensure_ascii=False)
        return orjson.loads(clean.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


class Encoded:
    """A serialized piece of a request's body. Unlike orjson's ``Fragment`` it can be read."""

    __slots__ = ("contents",)

    def __init__(self, contents: bytes) -> None:
        self.contents = contents


def dump(value: object) -> bytes:
    """Serializes a request's body; accepts every string."""
    try:
        return orjson.dumps(value, default=_as_fragment)
    except TypeError:  # a lone surrogate, or a number beyond 64 bits
        return json.dumps(value, ensure_ascii=False, default=_thawed).encode("utf-8", "replace")


def _as_fragment(value: object) -> orjson.Fragment:
    if isinstance(value, Encoded):
        return orjson.Fragment(value.contents)
    raise TypeError


def _thawed(value: object) -> Any:
    if isinstance(value, Encoded):
        return json.loads(value.contents)
    raise TypeError


def text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


MOST_TOKENS = 2_000_000_000  # more than any real count, and within every column's range


def count_or_zero(value: object) -> int:
    """Returns a provider's count of tokens as a bounded integer, or 0 if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(value, 0), MOST_TOKENS)
