"""A request whose sender cannot be looked up gets 503, not 500, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connections

from crushsite.asgi.routing import Router
from crushsite.process import ServerProcess
from crushsite.registration import ProcessShape
from tests.integration.databases import POSTGRESQL
from workspaces.log.outage import outage
from workspaces.log.reader import stop_reading

CREDENTIALS = {
    "token": (b"authorization", b"Bearer crush_" + b"x" * 43),
    "session": (b"cookie", b"crush_sessionid=abcdefghijklmnopqrstuvwxyz012345"),
}


@pytest.fixture
def unreachable(database: str, tmp_path: Path) -> Iterator[None]:
    """The database of the test, which no new connection reaches."""
    before = connections.settings[DEFAULT_DB_ALIAS]
    elsewhere = {"PORT": "1"} if database == POSTGRESQL else {"NAME": str(tmp_path / "no" / "file")}
    stop_reading()
    connections.settings[DEFAULT_DB_ALIAS] = before | elsewhere
    yield
    stop_reading()
    connections.settings[DEFAULT_DB_ALIAS] = before
    outage.report_end()


async def answer_of(credential: str, **scope: Any) -> list[dict[str, Any]]:
    router = Router(ServerProcess(ProcessShape(works=False, serves=True, is_alone=True)))
    sent: list[dict[str, Any]] = []
    received = iter([{"type": "websocket.connect"}])

    async def receive() -> dict[str, Any]:
        return next(received)

    async def send(message: Any) -> None:
        sent.append(dict(message))

    whole = {"headers": [CREDENTIALS[credential]], "extensions": {}, "query_string": b"", **scope}
    async with asyncio.timeout(60):
        await router(whole, receive, send)
    return sent


@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize(
    "path", ["/v1/workspaces", "/api/workspaces/w/events", "/v1/workspaces/w/events", "/admin/"]
)
async def test_a_request_gets_503_with_retry_after(
    unreachable: None, credential: str, path: str
) -> None:
    start, body = await answer_of(credential, type="http", method="GET", path=path)
    assert start["status"] == 503
    assert dict(start["headers"])[b"retry-after"] == b"2"
    assert b"database cannot be reached" in body["body"]


async def test_a_resource_gets_problem_details(unreachable: None) -> None:
    start, body = await answer_of("token", type="http", method="GET", path="/api/workspaces")
    headers = dict(start["headers"])
    assert (start["status"], headers[b"retry-after"]) == (503, b"2")
    assert headers[b"content-type"] == b"application/problem+json"
    assert b'"database_unreachable"' in body["body"]


async def test_a_socket_gets_503_or_a_close_code(unreachable: None) -> None:
    scope = {"type": "websocket", "path": "/api/workspaces/w/stream"}
    with_answers = scope | {"extensions": {"websocket.http.response": {}}}
    start, body = await answer_of("token", **with_answers)
    assert start["status"] == 503
    assert dict(start["headers"])[b"retry-after"] == b"2"
    assert b"database cannot be reached" in body["body"]
    accepted, closed = await answer_of("session", **scope)
    assert accepted["type"] == "websocket.accept"
    assert closed == {"type": "websocket.close", "code": 4503}
