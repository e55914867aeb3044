"""JSON as the other programs' parser takes it, stricter than the standard library's.

No NaN, no lone surrogates, no number that overflows, nothing nested too deeply,
and of an object also which of its keys came twice.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEPTH_LIMIT = 127  # levels; the other parser gives up at the 128th
_U64 = 2**64
_I64 = -(2**63)
_INFINITY = float("inf")
_BLANKS = " \t\n\r"
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89abABcCdDeEfF]")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_OPENING = re.compile(r"[\[{]")


class BadJson(ValueError):
    """Not JSON, or not as it is taken here. Holds nothing of the text."""


class Pairs(dict[str, Any]):
    """An object that knows which of its keys came twice; the last value counts."""

    __slots__ = ("doubled",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.doubled: frozenset[str] = frozenset()
        if len(self) != len(pairs):
            names = [name for name, _ in pairs]
            self.doubled = frozenset(name for name in self if names.count(name) > 1)


def parse(text: str) -> Any:
    """One document with nothing but blanks around it. Raises ``BadJson``."""
    if _ESCAPED_SURROGATE.search(text) is None:
        _refuse_surrogates(text)
        value = _decode(text)
    else:
        value = _decode(text)
        # Pairs of escapes have become characters by now; what is left has no other half.
        _walk(value, _refuse_surrogates)
    if len(_OPENING.findall(text)) > DEPTH_LIMIT:
        _measure(value)
    return value


def _decode(text: str) -> Any:
    try:
        start = len(text) - len(text.lstrip(_BLANKS))
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        raise BadJson("This is not JSON.") from None
    if text[end:].strip(_BLANKS):
        raise BadJson("Something follows the document.")
    return value


def _whole(digits: str) -> int | float:
    if len(digits) > 20:
        return _real(digits)
    number = int(digits)
    if digits == "-0":
        return -0.0
    return number if _I64 <= number < _U64 else float(number)


def _real(digits: str) -> float:
    number = float(digits)
    if number in {_INFINITY, -_INFINITY}:
        raise ValueError("out of range")
    return number


def _constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=_whole, parse_float=_real, parse_constant=_constant
)


def _refuse_surrogates(text: str) -> None:
    if not text.isascii() and LONE_SURROGATE.search(text) is not None:
        raise BadJson("A character is only half there.")


def _walk(value: Any, visit: Any) -> None:
    """Every text of a value, without recursion."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            visit(item)
        elif isinstance(item, dict):
            left += item.keys()
            left += item.values()
        elif isinstance(item, list):
            left += item


def _measure(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_LIMIT + 1):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise BadJson("The document is nested too deeply.")
