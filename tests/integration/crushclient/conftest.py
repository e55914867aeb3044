"""A server that answers as the test wants: over a real socket, in the test's process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
import pytest
import pytest_asyncio
from aiohttp import WSMsgType, web

from crushclient import Client, RetryPolicy, Timeouts

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
HASTY = RetryPolicy(first_seconds=0.001, limit_seconds=0.01)


class FakeServer:
    """Each request takes the next of ``answers``; the last one stays."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)


def json_answer(data: Any, status: int = 200, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        body = orjson.dumps(data)
        return web.Response(
            body=body, status=status, headers=shown, content_type="application/json"
        )

    return answer


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Ends the connection without a response."""
    assert request.transport is not None
    request.transport.abort()
    await asyncio.sleep(0)
    return web.Response()


class Session:
    """One connection of a client's WebSocket, as the server has it."""

    def __init__(self, socket: web.WebSocketResponse, query: dict[str, str]) -> None:
        self.socket = socket
        self.query = query

    async def send(self, *items: Any) -> None:
        await self.socket.send_str(orjson.dumps(list(items)).decode())

    async def opened(self, number: int) -> None:
        await self.send({"type": "stream.opened", "data": {"number": number}})

    async def command(self) -> dict[str, Any]:
        message = await self.socket.receive()
        assert message.type is WSMsgType.TEXT, message
        command: dict[str, Any] = orjson.loads(message.data)
        return command

    async def reply(self, command: dict[str, Any], **reply: Any) -> None:
        await self.send({"type": "reply", "id": command["id"], "ok": True, **reply})


def socket_answer(talk: Callable[[Session], Awaitable[None]]) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await talk(Session(socket, dict(request.query)))
        if not socket.closed:
            await socket.close(code=1012)
        return socket

    return answer


def closing_with(code: int) -> Answer:
    async def talk(session: Session) -> None:
        await session.opened(0)
        await session.socket.close(code=code)

    return socket_answer(talk)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeServer]:
    fake = FakeServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield fake
    await runner.cleanup()


@pytest.fixture
def retry() -> RetryPolicy:
    return HASTY


@pytest_asyncio.fixture
async def client(server: FakeServer, retry: RetryPolicy) -> AsyncIterator[Client]:
    timeouts = Timeouts(request_seconds=5, idle_seconds=0.5)
    async with Client(server.url, token="crush_secret", retry=retry, timeouts=timeouts) as made:
        yield made
