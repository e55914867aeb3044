"""The protocol and the address of Redis, without a Redis."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces.delivery.redis_link import RedisFailed, RedisServer, Replies

REPLIES = (
    b"+OK\r\n:7\r\n:-2\r\n$3\r\na\r\n\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n"
    b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\n\r\n\r\n\r\n*2\r\n*1\r\n:1\r\n+x\r\n"
)
READ = [
    *(b"OK", 7, -2, b"a\r\n", b"", None, None, []),
    *([b"message", b"c", b"\r\n\r\n"], [[1], b"x"]),
]


@given(st.lists(st.integers(0, len(REPLIES)), max_size=20))
def test_replies_are_read_wherever_the_network_cuts_them(cuts: list[int]) -> None:
    replies, found = Replies(), []
    ends = [*sorted(cuts), len(REPLIES)]
    for start, end in zip([0, *ends], ends, strict=False):
        found += replies.feed(REPLIES[start:end])
    assert found == READ


def test_a_large_reply_arrives_in_pieces() -> None:
    replies, text = Replies(), b"x" * 1_000_000
    data = b"$1000000\r\n" + text + b"\r\n+next\r\n"
    pieces = [data[at : at + 1_000] for at in range(0, len(data), 1_000)]
    assert [found for piece in pieces for found in replies.feed(piece)] == [text, b"next"]


def test_an_error_is_a_reply() -> None:
    (reply,) = Replies().feed(b"-NOAUTH Authentication required.\r\n")
    assert isinstance(reply, RedisFailed)
    assert str(reply) == "NOAUTH Authentication required."


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\r\n",
        b"$x\r\n",
        b"$-2\r\n",
        b"%1\r\n",
        b"$999999999999\r\n",
        b"*1\r\n" * 20 + b":1\r\n",
    ],
)
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a reply|invalid literal"):
        Replies().feed(data)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("redis://", RedisServer("localhost", 6379)),
        ("redis://h:1/5", RedisServer("h", 1)),
        ("redis://:p%40ss@h", RedisServer("h", 6379, password="p@ss")),
        ("redis://me:pass@[::1]:2", RedisServer("::1", 2, username="me", password="pass")),
        (
            "unix:///run/r%20s.sock?password=p",
            RedisServer("localhost", 6379, "/run/r s.sock", "", "p"),
        ),
    ],
)
def test_addresses_are_read(url: str, server: RedisServer) -> None:
    assert RedisServer.from_url(url) == server


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(RedisServer.from_url("redis://me:secret@h"))


@pytest.mark.parametrize(
    ("query", "mode", "checks_name"),
    [
        ("", ssl.CERT_REQUIRED, True),
        ("?ssl_check_hostname=false", ssl.CERT_REQUIRED, False),
        ("?ssl_cert_reqs=none", ssl.CERT_NONE, False),
    ],
)
def test_tls_checks_the_certificate_unless_told_otherwise(
    query: str, mode: ssl.VerifyMode, checks_name: bool
) -> None:
    tls = RedisServer.from_url(f"rediss://h{query}").tls
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (mode, checks_name)


@pytest.mark.parametrize(
    "url", ["http://h", "h:6379", "rediss://h?ssl_ciphers=x", "rediss://h?ssl_cert_reqs=maybe"]
)
def test_an_address_that_is_not_understood_is_refused(url: str) -> None:
    with pytest.raises(RedisFailed, match="REDIS_URL"):
        RedisServer.from_url(url)
