"""The body of an answer is the same however the network cuts it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.http_body import AnswerReader

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def _cut(whole: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(edge, len(whole)) for edge in at), len(whole)]
    return [whole[start:end] for start, end in pairwise(edges)]


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    edges=st.lists(st.integers(0, 400), max_size=12),
)
def test_it_joins_chunks_cut_anywhere(chunks: list[bytes], edges: list[int]) -> None:
    coded = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    reader = AnswerReader()
    whole = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + coded
    body = b"".join(reader.feed(piece) for piece in _cut(whole, edges))
    assert body == b"".join(chunks)
    assert reader.complete


@given(body=st.binary(max_size=60), edges=st.lists(st.integers(0, 200), max_size=6))
def test_it_reads_as_far_as_the_length_says(body: bytes, edges: list[int]) -> None:
    reader = AnswerReader()
    whole = _HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    assert b"".join(reader.feed(piece) for piece in _cut(whole, edges)) == body
    assert reader.complete


@pytest.mark.parametrize("status", [b"202 Accepted", b"204 No Content"])
def test_it_is_complete_with_the_head_where_there_is_no_body(status: bytes) -> None:
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)
    assert reader.complete
    assert reader.status == int(status[:3])


def test_it_is_never_complete_when_only_the_end_of_the_connection_ends_it() -> None:
    reader = AnswerReader()
    assert reader.feed(_HEAD + b"\r\ndata: 1\n\n") == b"data: 1\n\n"
    assert not reader.complete
