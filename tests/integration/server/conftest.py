"""A server of the application on free ports, and a client of it."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest_asyncio

from crushsite.server.asgi_server import AsgiServer
from tests.integration.server.app import App
from tests.integration.server.started import Start


@pytest_asyncio.fixture
async def app() -> App:
    return App()


@pytest_asyncio.fixture
async def start(app: App) -> AsyncIterator[Start]:
    servers: list[AsgiServer] = []

    async def begin(*endpoints: str, **options: Any) -> AsgiServer:
        server = AsgiServer(app, endpoints=endpoints or ["tcp://127.0.0.1:0"], **options)
        await server.start()
        servers.append(server)
        return server

    yield begin
    for server in servers:
        await server.stop(grace_seconds=0.1)


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session
