"""What a bridge passes on to the remote server, and what it does when the server does not answer."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest_asyncio
from aiohttp import web

from crushsite.asgi.identify import PEER
from crushsite.asgi.peer import Peer
from crushsite.bridge.application import Bridge
from crushsite.bridge.event_stream import EventStreams
from crushsite.bridge.remote import RemoteServer
from tests.acceptance.harness.ports import free_port

Messages = list[dict[str, Any]]


class EchoServer:
    """Answers each request with what it received; can be away."""

    def __init__(self) -> None:
        self.port = free_port()
        self.received: list[dict[str, Any]] = []
        self.gate = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        application = web.Application()
        application.router.add_route("GET", "/api/workspaces/w/events", self._stream)
        application.router.add_route("POST", "/v1/breaks", self._break)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        names = [name.lower() for name in request.headers]
        found = {"method": request.method, "path": request.raw_path, "names": sorted(names)}
        found["authorization"] = request.headers.get("Authorization", "")
        found["body"] = (await request.read()).decode()
        self.received.append(found)
        headers = {"X-Kept": "1", "Connection": "X-Mine", "X-Mine": "2"}
        return web.json_response(found, headers=headers)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: 1\n\n")
        await self.gate.wait()
        await answer.write(b"data: 2\n\n")
        return answer

    async def _break(self, request: web.Request) -> web.Response:
        self.received.append({"path": request.raw_path})
        assert request.transport is not None
        request.transport.abort()
        return web.Response()


class Exchange:
    """One request to the bridge, and what it answers."""

    def __init__(self, bridge: Bridge, method: str, target: str, **options: Any) -> None:
        path, _, query = target.partition("?")
        headers = [(b"host", b"api.crush.localhost"), *options.get("headers", ())]
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode()}
        if "peer" in options:
            scope["extensions"] = {PEER: {"peer": options["peer"]}}
        scope |= {"query_string": query.encode(), "headers": headers}
        self.messages: Messages = []
        self.sent = asyncio.Event()
        self._body = options.get("body", b"")
        self._task = asyncio.create_task(bridge(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body or b"", "more_body": False}

    async def _send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        if message.get("body"):
            self.sent.set()

    async def end(self) -> tuple[int, dict[bytes, bytes], bytes]:
        await self._task
        body = b"".join(message.get("body", b"") for message in self.messages)
        return self.messages[0]["status"], dict(self.messages[0]["headers"]), body


Send = Callable[..., Exchange]


@pytest_asyncio.fixture
async def remote_server() -> AsyncIterator[EchoServer]:
    server = EchoServer()
    await server.start()
    yield server
    server.gate.set()
    await server.stop()


@pytest_asyncio.fixture
async def send(remote_server: EchoServer) -> AsyncIterator[Send]:
    remote = RemoteServer(f"http://127.0.0.1:{remote_server.port}", token="t", patience_seconds=3)
    bridge = Bridge(remote, EventStreams(remote), servers=lambda: [os.getpid()], folder=Path())

    def send(method: str, target: str, **options: Any) -> Exchange:
        return Exchange(bridge, method, target, **options)

    yield send
    await remote.close()


async def test_only_headers_of_the_message_are_passed_on(
    send: Send, remote_server: EchoServer
) -> None:
    headers = [
        *((b"connection", b"keep-alive, x-hop"), (b"x-hop", b"1"), (b"te", b"trailers")),
        *((b"x-forwarded-for", b"1.2.3.4"), (b"via", b"1.1 x"), (b"forwarded", b"for=1.2.3.4")),
        *((b"origin", b"http://localhost"), (b"sec-fetch-site", b"none"), (b"cookie", b"a=b")),
        *((b"authorization", b"Bearer another"), (b"content-type", b"text/plain")),
        *((b"user-agent", b"terminal"), (b"accept", b"*/*")),
    ]
    exchange = send("PUT", "/v1/a%2Fb?x=%20y", headers=headers, body=b"text")
    status, answered, body = await exchange.end()
    assert status == 200
    assert orjson.loads(body) == {
        "method": "PUT",
        "path": "/v1/a%2Fb?x=%20y",
        "names": sorted(
            ["accept", "authorization", "content-length", "content-type", "host", "user-agent"]
        ),
        "authorization": "Bearer t",
        "body": "text",
    }
    assert answered[b"x-kept"] == b"1"
    assert answered[b"content-length"] == b"%d" % len(body)
    assert b"x-mine" not in answered
    assert b"connection" not in answered


async def test_a_stream_is_passed_on_as_it_comes(send: Send, remote_server: EchoServer) -> None:
    exchange = send("GET", "/api/workspaces/w/events")
    await exchange.sent.wait()
    assert exchange.messages[-1]["body"] == b"data: 1\n\n"
    remote_server.gate.set()
    assert (await exchange.end())[2] == b"data: 1\n\ndata: 2\n\n"


async def test_a_request_waits_for_a_network_that_returns(
    send: Send, remote_server: EchoServer
) -> None:
    await remote_server.stop()
    exchange = send("POST", "/v1/sessions", body=b"{}")
    await asyncio.sleep(0.3)  # at least one attempt fails
    await remote_server.start()
    assert (await exchange.end())[0] == 200
    assert len(remote_server.received) == 1


async def test_a_request_that_may_have_been_carried_out_is_not_repeated(
    send: Send, remote_server: EchoServer
) -> None:
    status, _, body = await send("POST", "/v1/breaks", body=b"{}").end()
    assert status == 502
    assert "may have been carried out" in orjson.loads(body)["message"]
    assert len(remote_server.received) == 1


async def test_a_network_that_does_not_return_is_an_error(
    send: Send, remote_server: EchoServer
) -> None:
    await remote_server.stop()
    status, _, body = await send("GET", "/v1/workspaces").end()
    assert status == 502
    assert "cannot be reached" in orjson.loads(body)["message"]


async def test_what_clients_poll_is_answered_without_a_network(
    send: Send, remote_server: EchoServer
) -> None:
    _, _, before = await send("GET", "/v1/workspaces/w/agent").end()
    await remote_server.stop()
    assert (await send("GET", "/v1/workspaces/w/messages/user").end())[0] == 502
    status, _, body = await send("GET", "/v1/workspaces/w/agent").end()
    assert (status, body) == (200, before)


async def test_a_tool_of_a_server_here_cannot_use_the_token(
    send: Send, remote_server: EchoServer
) -> None:
    program = "import sys; sys.stdin.read()"
    tool = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program), stdin=asyncio.subprocess.PIPE
    )
    try:
        peer = Peer(os.geteuid(), pid=tool.pid)
        status, _, body = await send("GET", "/v1/version", peer=peer).end()
        assert status == 403
        assert "may not use the bridge" in orjson.loads(body)["message"]
        assert remote_server.received == []
        person = Peer(os.geteuid(), pid=os.getppid())
        assert (await send("GET", "/v1/version", peer=person).end())[0] == 200
    finally:
        assert tool.stdin is not None
        tool.stdin.close()
        await tool.wait()
