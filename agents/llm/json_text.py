"""Reads JSON that a provider or a model wrote; never raises, never trusts.

Pure. orjson first; only where it refuses half of a surrogate pair (some
servers cut an emoji in two) the slower standard parser has a go.
"""

from __future__ import annotations

import json
from typing import Any

import orjson


def parse_object(text: bytes | str) -> dict[str, Any] | None:
    """The object, or ``None`` if this is no JSON object."""
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
    """A piece of a request's body that is JSON already. Unlike orjson's own it can be read."""

    __slots__ = ("contents",)

    def __init__(self, contents: bytes) -> None:
        self.contents = contents


def dump(value: object) -> bytes:
    """For a request's body: never refuses a string, whatever is in it."""
    try:
        return orjson.dumps(value, default=_as_fragment)
    except TypeError:  # half of a surrogate pair, or a number beyond 64 bits
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


MOST_TOKENS = 2_000_000_000  # no honest count is larger, and it fits every column


def count_or_zero(value: object) -> int:
    """A count of tokens as providers send them: an integer, bounded, else 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(value, 0), MOST_TOKENS)
