"""Documents with too many values are refused before they are parsed."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces.bounded_json import (
    LARGE_BYTES,
    MOST_VALUES,
    TooManyValues,
    has_more_values,
    parse,
)

MEGABYTE = 1024 * 1024
texts = st.text(st.sampled_from('a"\\,[]{}:\n é😀'), max_size=8)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(texts, below, max_size=4),
    max_leaves=30,
)


def values_in(document: Any) -> int:
    below = document.values() if isinstance(document, dict) else document
    return 1 + (sum(map(values_in, below)) if isinstance(document, list | dict) else 0)


@given(documents)
def test_it_refuses_no_document_with_fewer_values(document: Any) -> None:
    # An empty list counts like one with a value, and so does an empty object's colon.
    most = 2 * values_in(document)
    assert not has_more_values(orjson.dumps(document), most)


@given(st.lists(documents, min_size=2, max_size=6), st.integers(0, 3))
def test_it_finds_more_values_than_allowed(document: list[Any], spaces: int) -> None:
    body = orjson.dumps(document, option=orjson.OPT_INDENT_2 if spaces else None)
    assert has_more_values(body, len(document) - 1)


@pytest.mark.parametrize("size", [LARGE_BYTES - 20, 2 * LARGE_BYTES, 5 * MEGABYTE])
@pytest.mark.parametrize("text", ["x", ",", '"', "\\", "[{:", '\\"[', "é", "\n"])
async def test_what_stands_in_a_string_counts_for_nothing(size: int, text: str) -> None:
    document = {"prompt": text * (size // len(text)), "n": [1, {"a": None}]}
    assert await parse(orjson.dumps(document)) == document


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * MOST_VALUES + b"[]]",
        b"[" + b"1," * MOST_VALUES + b"1]",
        b"[" * (MOST_VALUES + 2) + b"]" * (MOST_VALUES + 2),
        b"{" + b'"a":"b",' * MOST_VALUES + b'"a":1}',
        b"[" + b'"",' * MOST_VALUES + b'""]',
    ],
    ids=["lists", "numbers", "depth", "fields", "strings"],
)
async def test_too_many_values_are_refused(body: bytes) -> None:
    with pytest.raises(TooManyValues, match=str(MOST_VALUES)):
        await parse(body)
    with pytest.raises(TooManyValues):
        await parse(body.decode())


@pytest.mark.parametrize(
    "body", [b'{"a":', b'"' * 200_000, b'["' + b"x" * 100_000, b"\xff" * 90_000]
)
async def test_a_broken_document_is_refused(body: bytes) -> None:
    with pytest.raises((TooManyValues, orjson.JSONDecodeError)):
        await parse(body)


@pytest.mark.parametrize(
    "piece", [b"[],", b'"",', b'"', b'\\"', b"{", b" ", b'"\\\\",', b"\\"], ids=repr
)
async def test_a_hostile_document_of_thirty_megabytes_holds_nobody_up(piece: bytes) -> None:
    body = b'["' + piece * (30 * MEGABYTE // len(piece))
    late: list[float] = []

    async def watch() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.005)
            late.append(time.monotonic() - began)

    watching = asyncio.create_task(watch())
    began = time.monotonic()
    with pytest.raises((TooManyValues, orjson.JSONDecodeError)):
        await parse(body)
    seconds = time.monotonic() - began
    watching.cancel()
    assert max(late, default=0) < max(1.0, 0.3 * seconds)  # 0.1 on a quiet machine
