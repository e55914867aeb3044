"""Parses JSON as strictly as the other programs' parser, unlike the standard library.

Refuses NaN, lone surrogates, numbers that overflow and values nested too deeply.
Objects list their repeated keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

DEPTH_LIMIT = 127  # levels; the other parser refuses the 128th
_U64 = 2**64
_I64 = -(2**63)
_INFINITY = float("inf")
_BLANKS = " \t\n\r"
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89abABcCdDeEfF]")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_OPENING = re.compile(r"[\[{]")


class BadJson(ValueError):
    """Not JSON, or JSON that is refused here. The message holds none of the text."""


class Pairs(dict[str, Any]):
    """An object with a list of its repeated keys; the last value counts."""

    __slots__ = ("doubled",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.doubled: frozenset[str] = frozenset()
        if len(self) != len(pairs):
            seen: set[str] = set()
            doubled: set[str] = set()
            for name, _ in pairs:  # linear: a frame may have millions of keys
                (doubled if name in seen else seen).add(name)
            self.doubled = frozenset(doubled)


def parse(text: str) -> Any:
    """Parses one document with only white space around it. Raises ``BadJson``."""
    if _ESCAPED_SURROGATE.search(text) is None:
        _refuse_surrogates(text)
        value = _decode(text)
    else:
        value = _decode(text)
        # The parser has combined surrogate pairs: any surrogate left is a lone one.
        _walk(value, _refuse_surrogates)
    if len(_OPENING.findall(text)) > DEPTH_LIMIT:
        _measure(value)
    return value


def _decode(text: str) -> Any:
    try:
        start = len(text) - len(text.lstrip(_BLANKS))
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        raise BadJson("The text is not valid JSON.") from None
    if text[end:].strip(_BLANKS):
        raise BadJson("The text goes on after the JSON document.")
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
        raise BadJson("The text contains half of a surrogate pair.")


def _walk(value: Any, visit: Any) -> None:
    """Calls ``visit`` for every text of a value, without recursion."""
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
    level = _containers([value])
    for _ in range(DEPTH_LIMIT):
        level = _containers(
            inner for item in level for inner in (item.values() if isinstance(item, dict) else item)
        )
        if not level:
            return
    raise BadJson(f"The document is nested more than {DEPTH_LIMIT} levels deep.")


def _containers(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, dict | list)]
