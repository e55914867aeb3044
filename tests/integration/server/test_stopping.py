"""The server itself: how it stops."""

import asyncio

import aiohttp
import pytest
from yarl import URL

from crushsite.server.asgi_server import AsgiServer
from tests.integration.server.app import App
from tests.integration.server.started import Start, url_of


async def test_a_running_request_is_finished_before_the_stop(
    start: Start, session: aiohttp.ClientSession, app: App
) -> None:
    server = await start()
    url = url_of(server, "/slow")
    asking = asyncio.create_task(session.get(url))
    await app.is_waiting.wait()
    await server.stop(grace_seconds=5)
    answer = await asking
    assert await answer.text() == "0"


async def test_a_request_that_never_ends_is_cut_off(
    start: Start, session: aiohttp.ClientSession, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start()
    asking = asyncio.create_task(session.get(url_of(server, "/hang")))
    await app.is_waiting.wait()
    async with asyncio.timeout(60):
        await server.stop(grace_seconds=0.1)
    async with await asking as answer:
        assert answer.status == 503
        assert await answer.json() == {"message": "server is shutting down"}
    assert not [record for record in caplog.records if record.levelno >= 30]


async def test_a_socket_that_is_not_accepted_yet_is_refused_with_503(
    start: Start, session: aiohttp.ClientSession, app: App
) -> None:
    server = await start()
    connecting = asyncio.create_task(_refusal(session, server))
    await app.is_waiting.wait()
    await server.stop(grace_seconds=0.1)
    assert await connecting == 503


class Impatient(AsgiServer):
    websocket_connect_timeout = 0


async def test_so_is_one_that_is_not_accepted_in_time(
    session: aiohttp.ClientSession, app: App
) -> None:
    server = Impatient(app, endpoint="tcp://127.0.0.1:0")
    await server.start()
    try:
        assert await _refusal(session, server) == 503
    finally:
        await server.stop(grace_seconds=0.1)


async def _refusal(session: aiohttp.ClientSession, server: AsgiServer) -> int:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await session.ws_connect(url_of(server, "/undecided"))
    return refused.value.status


@pytest.mark.parametrize("upgrade", ["", "Upgrade: websocket\r\nConnection: Upgrade\r\n"])
async def test_a_request_that_comes_during_the_stop_gets_503_and_leaves_no_trace(
    start: Start,
    session: aiohttp.ClientSession,
    app: App,
    caplog: pytest.LogCaptureFixture,
    upgrade: str,
) -> None:
    server = await start()
    url = URL(url_of(server, "/hang"))
    hanging = asyncio.create_task(session.get(url))
    await app.is_waiting.wait()
    head = f"GET /size HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n{upgrade}"
    if upgrade:
        head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(head.encode())  # its end is not here yet, so the connection is not idle
    async with asyncio.timeout(60):
        while sum(len(transport.protocol.requests) for transport in server.transports) < 2:
            await asyncio.sleep(0.01)
    stopping = asyncio.create_task(server.stop(grace_seconds=0.5))
    await asyncio.sleep(0)
    writer.write(b"\r\n")
    status = await reader.readline()
    assert status.startswith(b"HTTP/1.1 503 ")
    assert b'{"message":"server is shutting down"}' in await reader.readuntil(b"}")
    writer.close()
    await stopping
    (await hanging).close()
    assert not [record for record in caplog.records if record.levelno >= 30]


async def test_it_accepts_nobody_after_the_stop(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start()
    url = url_of(server)
    async with session.get(url) as answer:
        await answer.read()  # and keeps the connection
    await server.stop()
    await server.stop()
    with pytest.raises(aiohttp.ClientError):
        await session.get(url)


async def test_a_process_may_start_one_server_after_another(
    start: Start, session: aiohttp.ClientSession
) -> None:
    first = await start()
    await first.stop()
    second = await start()
    async with session.get(url_of(second)) as answer:
        assert answer.status == 200
