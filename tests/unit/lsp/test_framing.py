import asyncio

import pytest

from agents.tools.lsp.peer import BODY_LIMIT, HEADER_LIMIT, BrokenPeer, encode, read_message


def reader(data: bytes) -> asyncio.StreamReader:
    stream = asyncio.StreamReader(limit=HEADER_LIMIT)
    stream.feed_data(data)
    stream.feed_eof()
    return stream


async def test_it_reads_what_it_writes() -> None:
    message = {"jsonrpc": "2.0", "method": "é", "params": {"a": [1, None]}}
    stream = reader(encode(message) * 2)
    assert await read_message(stream) == message
    assert await read_message(stream) == message
    assert await read_message(stream) is None


async def test_names_of_headers_have_any_case_and_others_are_ignored() -> None:
    head = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-LENGTH: 2\r\n\r\n"
    assert await read_message(reader(head + b"{}")) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"Hello, I am a language server!\n" * 5000,
        b"X: " + b"x" * 100_000 + b"\r\n\r\n",
        b"X: y\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 1e3\r\n\r\n",
        b"Content-Length: 99999999999999999999\r\n\r\n",
        b"Content-Length: %d\r\n\r\n" % (BODY_LIMIT + 1),
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: 5\r\n\r\n{}",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 3\r\n\r\n{a}",
        b"Content-Length: 2\r\n\r\n\xff\xff",
        b"Content-Len",
    ],
)
async def test_what_is_no_message_ends_it_and_is_not_quoted(data: bytes) -> None:
    with pytest.raises(BrokenPeer) as caught:
        await read_message(reader(data))
    assert "Hello" not in str(caught.value)
