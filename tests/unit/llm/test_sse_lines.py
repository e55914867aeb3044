from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.llm.errors import BrokenStream
from agents.llm.sse_lines import SseLines


def read(*chunks: bytes, limit: int = 1000) -> list[bytes]:
    lines = SseLines(limit=limit)
    found = [data for chunk in chunks for data in lines.feed(chunk)]
    return found + lines.finish()


def test_it_gives_the_data_of_each_event() -> None:
    assert read(b"data: one\n\ndata: two\n\n") == [b"one", b"two"]


def test_it_passes_over_comments_names_and_unknown_fields() -> None:
    stream = b": ping\n\nevent: x\nid: 4\nretry: 5\nfoo\ndata: one\n\n"
    assert read(stream) == [b"one"]


def test_it_joins_several_data_lines() -> None:
    assert read(b"data: one\ndata:two\ndata\n\n") == [b"one\ntwo\n"]


def test_it_takes_away_one_space_only() -> None:
    assert read(b"data:  one \n\ndata:two\n\n") == [b" one ", b"two"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_it_knows_every_line_end(end: bytes) -> None:
    assert read(end.join([b"data: one", b"", b"data: two", b"", b""])) == [b"one", b"two"]


def test_a_line_end_may_be_cut_in_two() -> None:
    assert read(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [b"a\nb"]


def test_it_passes_over_a_byte_order_mark() -> None:
    assert read(b"\xef\xbb", b"\xbfdata: one\n\n") == [b"one"]


def test_an_event_without_its_last_blank_line_is_given_at_the_end() -> None:
    assert read(b"data: one\n\ndata: two") == [b"one", b"two"]


def test_a_line_without_end_is_refused() -> None:
    lines = SseLines(limit=100)
    for _ in range(100):
        lines.feed(b"x")
    with pytest.raises(BrokenStream):
        lines.feed(b"x")


def test_an_event_without_end_is_refused() -> None:
    lines = SseLines(limit=100)
    for _ in range(100):
        lines.feed(b"data:\n")
    with pytest.raises(BrokenStream):
        lines.feed(b"data:\n")


def test_many_small_events_are_not_one_large() -> None:
    assert read(b"data: 12345\n\n" * 100, limit=10) == [b"12345"] * 100


PIECES = st.sampled_from(
    [b"data: ", b"data:", b"data", b"\n", b"\r", b"\r\n", b"\n\n", b":", b"event: x", b"{}",
     b" ", "é🙂".encode(), b"\xef\xbb\xbf"]
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, max_size=40).map(b"".join), st.data())
def test_the_result_does_not_depend_on_where_the_network_cuts(
    stream: bytes, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    assert read(*chunks) == read(stream)
    assert read(*(stream[i : i + 1] for i in range(len(stream)))) == read(stream)
