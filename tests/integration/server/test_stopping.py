"""The server itself: how it stops."""

import asyncio

import aiohttp
import pytest

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
