"""Server-sent events: the same data wherever the bytes were cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from crushclient.sse import SseParser

EVENTS = b'id: 1\nevent: a\ndata: {"a":1}\n\n:\n\ndata: x\ndata: y\n\nevent: none\n\ndata:z\r\n\r\n'
DATA = [b'{"a":1}', b"x\ny", b"z"]


@given(st.lists(st.integers(0, len(EVENTS))))
def test_any_cut_gives_the_same_data(cuts: list[int]) -> None:
    parser, found = SseParser(), []
    bounds = [0, *sorted(cuts), len(EVENTS)]
    for start, end in pairwise(bounds):
        found += parser.feed(EVENTS[start:end])
    assert found == DATA


def test_an_event_that_has_not_ended_is_not_returned() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == [b"a"]
