"""Bodies of the web: unpacked piece by piece, decoded, and code matches read with care."""

import gzip
import zlib
from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.tools.contract import ToolRefusal
from agents.tools.web.client import BodyDecoder
from agents.tools.web.pages import decoded
from agents.tools.web.sourcegraph import code_matches


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


PACKERS = {
    "": lambda body: body,
    "identity": lambda body: body,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
}


def unpacked(decoder: BodyDecoder, body: bytes, size: int) -> bytes:
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(piece for chunk in chunks for piece in decoder.feed(chunk))


@given(
    body=st.binary(max_size=3000),
    size=st.integers(2, 4000),
    encoding=st.sampled_from(sorted(PACKERS)),
)
def test_it_unpacks_however_the_network_cuts(body: bytes, size: int, encoding: str) -> None:
    decoder = BodyDecoder(encoding)
    assert unpacked(decoder, PACKERS[encoding](body), size) == body
    assert decoder.is_whole


def test_it_unpacks_deflate_without_its_head() -> None:
    assert unpacked(BodyDecoder("deflate"), raw_deflate(b"words " * 100), 7) == b"words " * 100


def test_it_unpacks_several_packets_in_one_body() -> None:
    body = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0filling"
    assert unpacked(BodyDecoder("gzip"), body, 5000) == b"one two"


def test_it_gives_a_bomb_in_small_pieces() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    pieces = BodyDecoder("gzip").feed(bomb)
    assert len(next(pieces)) <= 128 * 1024


def test_it_knows_that_half_is_missing() -> None:
    decoder = BodyDecoder("gzip")
    list(decoder.feed(gzip.compress(b"words " * 1000)[:20]))
    assert not decoder.is_whole


@given(st.binary(min_size=1, max_size=200), st.sampled_from(["gzip", "deflate"]))
def test_it_refuses_rubbish_and_never_breaks(body: bytes, encoding: str) -> None:
    with suppress(ToolRefusal):
        list(BodyDecoder(encoding).feed(body))


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "x"])
def test_it_refuses_what_was_not_asked_for(encoding: str) -> None:
    with pytest.raises(ToolRefusal, match="not requested"):
        BodyDecoder(encoding)


@given(st.binary(max_size=300), st.text(max_size=20), st.booleans())
def test_any_bytes_become_text(body: bytes, declared: str, is_html: bool) -> None:
    decoded(body, declared, is_html=is_html).encode()


def test_a_body_that_was_cut_within_a_character_stays_what_it_is() -> None:
    assert decoded("aé".encode()[:-1], "", is_html=False, is_cut=True) == "a\ufffd"
    assert decoded("aé".encode()[:-1], "", is_html=False) == "aÃ"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"<html>", "not JSON"),
        (b"[]", "unknown format"),
        (b'{"data": null}', "unknown format"),
        (b'{"data": {"search": []}}', "unknown format"),
        (b'{"errors": [{"message": "bad query"}]}', "bad query"),
    ],
)
def test_it_says_what_is_wrong_with_an_answer(body: bytes, sentence: str) -> None:
    with pytest.raises(ToolRefusal, match=sentence):
        code_matches(body)


def test_it_survives_rows_of_any_shape() -> None:
    rows = [None, 7, {}, {"__typename": "FileMatch"}]
    rows += [{"__typename": "FileMatch", "file": 7, "repository": [], "lineMatches": [{}, 3]}]
    rows += [{"__typename": "FileMatch", "lineMatches": [{"lineNumber": 10**12, "preview": "x"}]}]
    found = code_matches(orjson.dumps({"data": {"search": {"results": {"results": rows}}}}))
    for file in found.files:
        file.shown(5)


def test_matches_near_each_other_share_their_lines() -> None:
    content = "".join(f"line {n}\n" for n in range(1, 31))
    lines = [{"lineNumber": n, "preview": ""} for n in (9, 11, 25)]
    row = {"__typename": "FileMatch", "file": {"path": "x", "content": content}}
    row["repository"] = {"name": "r"}
    row["lineMatches"] = lines
    (file,) = code_matches(
        orjson.dumps({"data": {"search": {"results": {"results": [row]}}}})
    ).files
    shown = [int(line.split("|")[0]) for line in file.shown(2).splitlines() if "|line" in line]
    assert shown == [*range(8, 15), *range(24, 29)]
