"""The server itself: what it takes, and what it refuses in a sentence."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.integration.server.app import App
from tests.integration.server.started import MEGABYTE, Start, port_of, url_of


async def test_a_body_up_to_the_limit_is_taken(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start(body_limit=300_000)
    async with session.post(url_of(server), data=b"x" * 300_000) as answer:
        assert await answer.text() == "300000"


async def _chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 1000):
        yield b"x" * 1000


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_larger_body_is_refused(
    start: Start, session: aiohttp.ClientSession, is_chunked: bool
) -> None:
    server = await start(body_limit=300_000)
    data = _chunks(301_000) if is_chunked else b"x" * 300_001
    async with session.post(url_of(server), data=data) as answer:
        assert answer.status == 413
        assert "300000" in (await answer.json())["message"]


async def test_a_huge_announced_body_is_refused_before_it_comes(start: Start) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
    assert b" 413 " in await asyncio.wait_for(reader.readline(), 60)
    writer.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET /size HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET /size HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET /size HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /size HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /size?a=\xff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /size HTTP/1.1\r\nH\xc3: x\r\nConnection: close\r\n\r\n",
        b"GET /size HTTP/1.1\r\nA: b\x0bc\r\nConnection: close\r\n\r\n",
        b"GET /size HTTP/1.1\r\nA: b\x85c\r\nConnection: close\r\n\r\n",
        b"GET /size HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET /size HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 99\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ],
)
async def test_a_malformed_request_gets_a_sentence_and_is_no_error_of_ours(
    start: Start, request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(request_bytes)
    answer = await asyncio.wait_for(reader.read(), 60)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 426 "))
    assert body.startswith(b'{"message":')
    assert not [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}]
    writer.close()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_an_application_gets_what_was_sent(start: Start, app: App, version: str) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    head = f"POST /si%7Ae?a=%C3%A9&b HTTP/{version}\r\nConnection: close\r\nContent-Length: 4\r\n"
    more = "X-Two: 1\r\nX-Two: 2\r\nX_Two: 3\r\nDaphne-Root-Path: /x\r\n\r\nbody"
    writer.write((head + more).encode())
    assert (await asyncio.wait_for(reader.read(), 60)).endswith(b"\r\n\r\n4")
    writer.close()

    scope = app.scope
    headers = [value for name, value in scope["headers"] if name == b"x-two"]
    assert headers == [b"1", b"2"]
    assert not [name for name, _ in scope["headers"] if b"_" in name or name != name.lower()]
    assert (scope["http_version"], scope["method"], scope["scheme"]) == (version, "POST", "http")
    assert (scope["path"], scope["raw_path"], scope["root_path"]) == ("/size", b"/si%7Ae", "")
    assert scope["query_string"] == b"a=%C3%A9&b"
    assert scope["client"] == list(writer.get_extra_info("sockname"))
    assert scope["server"] == ["127.0.0.1", port_of(server)]


async def test_large_bodies_beyond_the_limit_over_all_connections_are_refused_for_now(
    start: Start, session: aiohttp.ClientSession, app: App
) -> None:
    server = await start(body_limit=300_000, bodies_limit=500_000)
    url, hanging = url_of(server), url_of(server, "/slow")
    first = asyncio.create_task(session.post(hanging, data=b"x" * 300_000))
    await app.is_waiting.wait()
    for data in (b"x" * 300_000, _chunks(300_000)):
        async with session.post(url, data=data) as answer:
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            assert "again" in (await answer.json())["message"]
    async with session.post(url, data=b"x" * 60_000) as answer:
        assert answer.status == 200  # a small one always passes
    assert (await first).status == 200
    async with session.post(url, data=_chunks(300_000)) as answer:
        assert answer.status == 200
    assert server.body_bytes == 0


async def test_a_body_whose_client_leaves_gives_its_room_back(start: Start, app: App) -> None:
    server = await start(body_limit=300_000, bodies_limit=300_000)
    head = b"POST /hang HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    for sent in (100_000, 200_000):  # while it comes, and while it is worked on
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
        writer.write(head + b"x" * sent)
        async with asyncio.timeout(60):
            while server.body_bytes < sent:
                await asyncio.sleep(0.01)
        if sent == 200_000:
            await app.is_waiting.wait()
        writer.close()
        if sent == 200_000:
            await server.stop(grace_seconds=0.1)  # its application never ends by itself
        async with asyncio.timeout(60):
            while server.body_bytes:
                await asyncio.sleep(0.01)


LONG = b"x" * 20_000
UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status", "word"),
    [
        (b"GET /" + LONG, 414, "line"),  # before its end has come
        (b"GET /" + LONG + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "line"),
        (b"\r\nGET /" + LONG + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "line"),
        (b"GET /" + LONG * 50 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "line"),
        (b"GET /size HTTP/1.1\r\nA: " + LONG, 431, "headers"),
        (b"GET /size HTTP/1.1\r\nA: " + LONG + b"\r\n\r\n", 431, "headers"),
        (b"POST /size HTTP/1.1\r\nContent-Length: 9\r\nA: " + LONG + b"\r\n\r\n", 431, "headers"),
        (b"GET /size HTTP/1.1\r\n" + (b"A: " + b"x" * 997 + b"\r\n") * 20, 431, "headers"),
        (b"GET /size HTTP/1.1\r\nA: b\r\n" + b" more\r\n" * 5_000, 431, "headers"),
        (b"GET /size HTTP/1.1\r\n" + b"A: b\r\n" * 600 + b"\r\n", 431, "500 headers"),
        (b"GET /deaf HTTP/1.1\r\n" + UPGRADE + b"A: " + LONG + b"\r\n\r\n", 431, "headers"),
    ],
)
async def test_an_over_long_request_line_or_header_is_refused_with_its_reason(
    start: Start, request_bytes: bytes, status: int, word: str
) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(b"GET /size HTTP/1.1\r\nHost: x\r\n\r\n" + request_bytes)
    before, _, answer = (await asyncio.wait_for(reader.read(), 60)).partition(b"\r\n\r\n0")
    assert before.startswith(b"HTTP/1.1 200 ")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert word in json.loads(body)["message"]
    writer.close()


async def test_a_request_line_and_headers_just_below_the_limit_are_taken(start: Start) -> None:
    server = await start()
    line, last = b"GET /size?" + b"x" * 8_000 + b" HTTP/1.1", b"Connection: close"
    header = b"A: " + b"x" * (16_384 - len(line) - len(last) - 3)
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(b"\r\n".join([line, header, last, b"", b""]))
    assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_a_large_message_passes_both_ways(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start()
    async with session.ws_connect(url_of(server), max_msg_size=0) as ws:
        for size in (0, 125, 126, 65_535, 65_536, 3 * MEGABYTE):
            await ws.send_str("é" * size)
            if size:
                assert await ws.receive_str() == "é" * size


async def test_a_message_over_the_limit_closes_the_socket(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start(frame_limit=10_000)
    async with session.ws_connect(url_of(server)) as ws:
        await ws.send_str("x" * 10_001)
        assert (await ws.receive()).type is aiohttp.WSMsgType.CLOSE
        assert ws.close_code == 1009
