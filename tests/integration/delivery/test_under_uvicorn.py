"""The streams rest on ASGI alone: another server carries them too."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio
import uvicorn

from tests.integration.delivery.conftest import CLIENT, Site
from tests.integration.delivery.reading import narrow_socket, next_envelope, next_frame, read_all
from workspaces.actions.sessions import create_session


@pytest_asyncio.fixture
async def elsewhere(site: Site) -> AsyncIterator[Site]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        site.port = listening.getsockname()[1]
        config = uvicorn.Config(
            site.application,
            lifespan="off",
            log_config=None,
            ws="websockets-sansio",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        yield site
        server.should_exit = True
        await serving


async def test_the_v1_stream_comes_and_detaches(elsewhere: Site) -> None:
    async with elsewhere.session.get(elsewhere.v1()) as answer:
        assert await elsewhere.claims() == {CLIENT: True}
        await elsewhere.write(create_session, title="new")
        assert (await next_envelope(answer))["type"] == "session"
    await asyncio.wait_for(elsewhere.detached.get(), 60)


async def test_a_slow_native_reader_is_told_to_resume(elsewhere: Site) -> None:
    with narrow_socket(elsewhere.port) as client:
        path = elsewhere.native().partition(str(elsewhere.port))[2]
        request = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        await asyncio.get_running_loop().sock_sendall(client, request)
        while (
            not elsewhere.hub._rooms
            or not elsewhere.hub._rooms[elsewhere.workspace_id].native.readers
        ):
            await asyncio.sleep(0.01)
        (reader,) = elsewhere.hub._rooms[elsewhere.workspace_id].native.readers
        while not reader.overflowed:
            await elsewhere.tell(size=100_000)
        assert b"event: stream.resume" in await read_all(client)


async def test_the_native_stream_begins(elsewhere: Site) -> None:
    async with elsewhere.session.get(elsewhere.native()) as answer:
        assert await next_frame(answer) == "retry: 1000\n"


async def test_the_socket_carries_the_feed_and_commands(elsewhere: Site) -> None:
    async with elsewhere.session.ws_connect(elsewhere.socket()) as socket:
        assert json.loads(await socket.receive_str())[0]["type"] == "stream.opened"
        await socket.send_json({"id": 1, "command": "echo"})
        assert json.loads(await socket.receive_str())[0]["ok"]


async def test_an_unknown_workspace_is_refused_with_an_http_answer(elsewhere: Site) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await elsewhere.session.ws_connect(elsewhere.socket(workspace_id="nowhere"))
    assert refusal.value.status == 404
