"""Line breaks that JSON leaves as they are, in the data of server-sent events."""

from __future__ import annotations

import sys

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces.delivery.native_frames import escape_line_breaks

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\x85\u2028\u2029\\"'))


@given(texts)
def test_the_value_stays_the_same_and_every_reader_sees_one_line(text: str) -> None:
    escaped = escape_line_breaks(orjson.dumps({text: [text]}))
    assert orjson.loads(escaped) == {text: [text]}
    assert len(escaped.decode().splitlines()) == 1


def test_no_character_at_all_breaks_a_line() -> None:
    every = "".join(chr(n) for n in range(sys.maxunicode + 1) if not 0xD800 <= n < 0xE000)
    assert len(escape_line_breaks(orjson.dumps(every)).decode().splitlines()) == 1


@pytest.mark.parametrize("text", ["plain", "✅ “quoted”, déjà vu", "改行"])
def test_other_text_is_left_alone(text: str) -> None:
    assert escape_line_breaks(orjson.dumps(text)) == orjson.dumps(text)
