"""JSON-RPC with a peer that is played by the test."""

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from agents.tools.lsp.peer import (
    HEADER_LIMIT,
    LspPeer,
    NoSuchMethod,
    RequestFailed,
    encode,
    read_message,
)


@dataclass
class Other:
    """The test's end, and what ours was told."""

    peer: LspPeer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    notified: list[tuple[str, Any]] = field(default_factory=list)

    def say(self, **message: Any) -> None:
        self.writer.write(encode({"jsonrpc": "2.0", **message}))

    async def hear(self) -> dict[str, Any]:
        message = await read_message(self.reader)
        assert message is not None
        return message


@pytest_asyncio.fixture
async def other() -> AsyncIterator[Other]:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours, limit=HEADER_LIMIT)
    their_reader, their_writer = await asyncio.open_connection(sock=theirs)

    def on_request(method: str, params: Any) -> Any:
        if method == "known":
            return {"got": params}
        if method == "broken":
            raise RuntimeError
        raise NoSuchMethod

    peer = LspPeer(
        reader,
        writer.transport,
        on_request=on_request,
        on_notification=lambda method, params: made.notified.append((method, params)),
        clean=lambda text: text.replace("secret", "***"),
    )
    made = Other(peer, their_reader, their_writer)
    yield made
    peer.end("the test is over")
    for stream in (writer, their_writer):
        stream.close()
    await asyncio.sleep(0)


async def test_answers_find_their_requests_in_any_order(other: Other) -> None:
    first = asyncio.ensure_future(other.peer.request("a", {"x": 1}, seconds=5))
    second = asyncio.ensure_future(other.peer.request("b", None, seconds=5))
    asked = [await other.hear(), await other.hear()]
    other.say(id=asked[1]["id"], result="two")
    other.say(id=asked[0]["id"], result=None)
    assert (await first, await second) == (None, "two")
    assert asked[0]["params"] == {"x": 1}


async def test_a_refusal_is_told_without_secrets(other: Other) -> None:
    asking = asyncio.ensure_future(other.peer.request("a", None, seconds=5))
    number = (await other.hear())["id"]
    other.say(id=number, error={"code": 1, "message": "no\n  secret here"})
    with pytest.raises(RequestFailed, match=r"returned an error: no \*\*\* here"):
        await asking


async def test_an_answer_that_does_not_come_is_given_up_and_may_come_late(other: Other) -> None:
    with pytest.raises(RequestFailed, match=r"did not respond to a within 0\.01 s"):
        await other.peer.request("a", None, seconds=0.01)
    number = (await other.hear())["id"]
    assert (await other.hear()) == {
        "jsonrpc": "2.0",
        "method": "$/cancelRequest",
        "params": {"id": number},
    }
    other.say(id=number, result="late")
    other.say(id="never-asked", result=1)
    other.say(id=True, result=1)
    other.say(method="told", params=[1])
    while not other.notified:
        await asyncio.sleep(0)
    assert not other.peer.gone.done()


async def test_its_own_requests_are_answered(other: Other) -> None:
    other.say(id="x", method="known", params=5)
    other.say(id=7, method="unknown")
    other.say(id=8, method="broken")
    answers = [await other.hear() for _ in range(3)]
    assert answers[0] == {"jsonrpc": "2.0", "id": "x", "result": {"got": 5}}
    assert answers[1]["error"]["code"] == -32601
    assert answers[2]["error"]["code"] == -32603


async def test_its_end_ends_every_request(other: Other) -> None:
    asking = asyncio.ensure_future(other.peer.request("a", None, seconds=5))
    await other.hear()
    other.writer.close()
    with pytest.raises(RequestFailed, match="has ended"):
        await asking
    assert await other.peer.gone == "it has closed its output"
    with pytest.raises(RequestFailed, match="has ended"):
        await other.peer.request("b", None, seconds=5)
    other.peer.notify("ignored", None)


async def test_garbage_ends_it(other: Other) -> None:
    other.writer.write(b"Content-Length: x\r\n\r\n")
    assert await other.peer.gone == "one of its headers has no valid length"


async def test_one_that_does_not_read_is_given_up(other: Other) -> None:
    for _ in range(40):
        other.peer.notify("much", "x" * 1_000_000)
    assert await other.peer.gone == "it does not read its input"
