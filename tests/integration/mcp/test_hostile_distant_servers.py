"""Servers over HTTP that mean ill or are broken: bounded in size and time."""

import asyncio
import contextlib
import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from aiohttp import web

from agents.config.settings import McpSettings
from agents.tools.mcp.contract import McpStatus
from agents.tools.mcp.tools import tools_of
from tests.doubles.mcp_backing import MemoryBacking
from tests.integration.mcp.conftest import MakeHost

Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[str]]


@pytest_asyncio.fixture
async def serve() -> AsyncIterator[Serve]:
    """`await serve(handler)`: the address of a web server that answers everything with it."""
    runners: list[web.AppRunner] = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> str:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{tail:.*}", handler)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("kind", "content_type", "first", "told"),
    [
        (
            "http",
            "application/json",
            b"",
            "The server sent a message of more than 16,777,216 bytes.",
        ),
        (
            "http",
            "text/event-stream",
            b"data: ",
            "The server sent a message of more than 16,777,216 bytes.",
        ),
        (
            "sse",
            "text/event-stream",
            b"event: endpoint\ndata: /x\n\ndata: ",
            "The server sent an event that is malformed or too long.",
        ),
    ],
)
async def test_a_distant_server_that_sends_without_an_end_is_cut_off(
    kind: str,
    content_type: str,
    first: bytes,
    told: str,
    serve: Serve,
    make_host: MakeHost,
    backing: MemoryBacking,
) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            await response.write(first)
            while True:
                await response.write(b" " * 1_000_000)
        return response

    host = make_host(McpSettings("s", kind, url=await serve(endless), timeout_seconds=20))
    await host.open("w")
    view = await backing.until_state(McpStatus.ERROR)
    assert view.error == told


@pytest.mark.parametrize("kind", ["http", "sse"])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda: web.Response(status=500), "status 500"),
        (lambda: web.Response(status=404), "status 404"),
        (lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "302"),
        (
            lambda: web.Response(
                body=gzip.compress(b"{}"),
                headers={"Content-Encoding": "gzip", "Content-Type": "application/json"},
            ),
            "compresses its answers",
        ),
    ],
)
async def test_a_distant_server_that_answers_nonsense_says_so(
    kind: str,
    answer: Callable[[], web.Response],
    told: str,
    serve: Serve,
    make_host: MakeHost,
    backing: MemoryBacking,
) -> None:
    async def nonsense(request: web.Request) -> web.StreamResponse:
        return answer()

    url = await serve(nonsense)
    host = make_host(McpSettings("s", kind, url=f"{url}?key=s3cret-in-the-url", timeout_seconds=60))
    await tools_of(host, "w")
    view = await backing.until_state(McpStatus.ERROR)
    assert told in view.error
    assert "s3cret" not in view.error


async def test_a_distant_server_that_never_answers_is_given_up_in_time(
    serve: Serve, make_host: MakeHost, backing: MemoryBacking
) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    host = make_host(McpSettings("s", "http", url=await serve(silent), timeout_seconds=1))
    began = time.monotonic()
    assert await tools_of(host, "w") == {}
    assert time.monotonic() - began < 25
    assert "did not start within 1 seconds" in (await backing.until_state(McpStatus.ERROR)).error
