"""Parses JSON from clients without blocking the event loop for long.

A parser holds the GIL, so a thread alone does not help: parsing 31 MB of empty lists blocked all
threads for 1.5 s. The number of values determines the time, and memory of up to 25 times the size.
So the values are counted first, in small pieces between which other threads run, and limited. Long
strings are cheap. Pure: independent of frameworks.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import orjson

# Parsing 64 KiB of the smallest values takes about 1 ms, a thread switch 0.1 ms.
LARGE_BYTES = 64 * 1024
# No endpoint needs more than a few hundred; parsing this many takes 3 ms.
MOST_VALUES = 50_000
_PIECE = 64 * 1024
_QUOTE = b'"'
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


class TooManyValues(ValueError):
    def __init__(self) -> None:
        super().__init__(f"the JSON document has more than {MOST_VALUES} values")


async def parse(body: bytes | str) -> Any:
    """Parses JSON, in a thread if it is large.

    Raises ``TooManyValues`` or ``orjson.JSONDecodeError``.
    """
    if len(body) <= LARGE_BYTES:
        return orjson.loads(body)
    return await asyncio.to_thread(parse_bounded, body)


def parse_bounded(body: bytes | str) -> Any:
    """Does the same in the caller's thread."""
    if len(body) > LARGE_BYTES and has_more_values(
        body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body, MOST_VALUES
    ):
        raise TooManyValues
    return orjson.loads(body)


def has_more_values(body: bytes, most: int) -> bool:
    """Whether there are more values, by a low estimate; unreliable for malformed documents."""
    found = strings = at = 0
    while at < len(body):
        end = min(at + _PIECE, len(body))
        quote = body.find(_QUOTE, at, end)
        stop = end if quote < 0 else quote
        # Each value but the first follows one of these.
        found += body.count(b",", at, stop) + body.count(b"[", at, stop)
        found += body.count(b":", at, stop)
        strings += quote >= 0
        if found > most or strings > 2 * most:  # a value may have a key before it
            return True
        at = stop if quote < 0 else _end_of_string(body, quote + 1)
    return False


def _end_of_string(body: bytes, at: int) -> int:
    """Returns the index after the closing quote of the string that starts at ``at``."""
    while at < len(body):
        end = min(at + _PIECE, len(body))
        read = _IN_STRING.match(body, at, end)
        stop = at if read is None else read.end()
        if stop < end and body[stop] == _QUOTE[0]:
            return stop + 1
        # The piece ended inside the string, or inside an escape.
        at = stop if stop > at else len(body)
    return len(body)
