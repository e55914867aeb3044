"""A server of the application on free ports, and a client of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import uvloop

from crushsite.server.asgi_server import AsgiServer
from tests.integration.server.app import App
from tests.integration.server.started import Start


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The server lives in uvloop's loop, and in the standard one where there is no uvloop."""
    return {"standard": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture
async def app() -> App:
    return App()


@pytest_asyncio.fixture
async def start(app: App) -> AsyncIterator[Start]:
    servers: list[AsgiServer] = []

    async def begin(endpoint: str = "tcp://127.0.0.1:0", **options: Any) -> AsgiServer:
        server = AsgiServer(app, endpoint=endpoint, **options)
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
