"""The server itself: a slow reader costs no memory, and a stuck one is disconnected."""

import asyncio
import gc
import socket
from pathlib import Path

import aiohttp
import psutil
import pytest

from tests.integration.delivery.reading import narrow_socket, read_all
from tests.integration.server.app import App
from tests.integration.server.started import MEGABYTE, Start, port_of, url_of


async def test_a_socket_is_not_read_faster_than_its_application(
    start: Start, session: aiohttp.ClientSession, app: App
) -> None:
    server = await start()
    before = memory()
    async with session.ws_connect(url_of(server, "/deaf")) as ws:
        await app.is_waiting.wait()

        async def send() -> None:
            for _ in range(100):
                await ws.send_str("x" * MEGABYTE)

        sending = asyncio.create_task(send())
        await asyncio.sleep(0.3)
        (queue,) = [each.application_queue for each in server.connections]
        assert queue.qsize() <= 3
        assert memory() - before < 60 * MEGABYTE
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def memory() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


def stalled(path: str) -> bytes:
    upgrade = (
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    kind, _, place = path.partition(":")
    return f"GET {place} HTTP/1.1\r\nHost: x\r\n{upgrade if kind == 'ws' else ''}\r\n".encode()


async def settled(app: App) -> int:
    """How much was sent when no more goes out."""
    async with asyncio.timeout(60):
        before = -1
        while app.sent == 0 or app.sent != before:
            before = app.sent
            await asyncio.sleep(0.25)
    return app.sent


@pytest.mark.parametrize("path", ["http:/flood", "ws:/flood"])
@pytest.mark.parametrize("family", ["tcp", "unix"])
async def test_a_reader_that_does_not_read_costs_no_memory(
    start: Start, app: App, path: str, family: str, tmp_path: Path
) -> None:
    place = tmp_path / "s"
    server = await start("tcp://127.0.0.1:0" if family == "tcp" else f"unix://{place}")
    before = memory()
    if family == "tcp":
        client = narrow_socket(port_of(server))
    else:
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(place))
        client.setblocking(False)
    with client:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, stalled(path))
        sent = await settled(app)
        assert sent < 20 * MEGABYTE  # what the kernel holds
        assert memory() - before < 20 * MEGABYTE
        while app.sent < sent + 5 * MEGABYTE:  # it goes on when the client does
            assert await loop.sock_recv(client, 256 * 1024)


@pytest.mark.parametrize("path", ["http:/flood", "ws:/flood"])
async def test_a_reader_that_takes_nothing_for_the_timeout_is_cut_off(
    start: Start, app: App, path: str
) -> None:
    server = await start(write_timeout_seconds=0.6)
    with narrow_socket(port_of(server)) as client:
        await asyncio.get_running_loop().sock_sendall(client, stalled(path))
        await settled(app)
        async with asyncio.timeout(60):
            while server.connections:
                await asyncio.sleep(0.05)


async def test_a_stream_delimited_by_its_close_is_cut_off_without_a_reset(
    start: Start, app: App
) -> None:
    server = await start(write_timeout_seconds=0.6)
    with narrow_socket(port_of(server)) as client:
        await asyncio.get_running_loop().sock_sendall(client, stalled("http:/closing_flood"))
        await settled(app)
        async with asyncio.timeout(60):
            while server.transports:
                await asyncio.sleep(0.05)
        assert b"one" in (await read_all(client))[:1000]  # ends with a close, raises nothing


async def test_a_reader_that_takes_a_little_each_time_is_not_cut_off(
    start: Start, app: App
) -> None:
    server = await start(write_timeout_seconds=4)
    loop = asyncio.get_running_loop()
    with narrow_socket(port_of(server)) as client:
        await loop.sock_sendall(client, stalled("http:/flood"))
        await settled(app)
        until = loop.time() + 8
        while loop.time() < until:
            assert await loop.sock_recv(client, 512 * 1024)
            await asyncio.sleep(0.05)
        assert server.connections


async def test_no_more_is_pushed_than_a_reader_takes(start: Start, app: App) -> None:
    server = await start()
    before = memory()
    loop = asyncio.get_running_loop()
    with narrow_socket(port_of(server)) as client:
        await loop.sock_sendall(client, stalled("http:/push_flood"))
        await asyncio.wait_for(app.is_waiting.wait(), 60)
        assert app.seen == ["full"]
        assert memory() - before < 60 * MEGABYTE
    await asyncio.wait_for(app.was_left.wait(), 60)
    assert app.seen == ["full", "left: False"]


async def test_no_more_is_pushed_to_a_socket_than_its_peer_reads(
    start: Start, session: aiohttp.ClientSession, app: App
) -> None:
    server = await start()
    before = memory()
    async with session.ws_connect(url_of(server, "/push_flood"), max_msg_size=0) as socket:
        await socket.send_str("it answers when its flood has ended")
        async with asyncio.timeout(60):
            got = 0
            while (text := await socket.receive_str()).startswith("x"):
                got += len(text)
        assert 0 < got == app.sent
        assert memory() - before < 60 * MEGABYTE
