"""Requests of the client: credentials, errors, what is repeated and what is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from crushclient import (
    ApiError,
    AuthenticationError,
    Client,
    ConflictError,
    ConnectionFailed,
    InvalidRequestError,
    NotAllowedError,
    NotFoundError,
    RetryPolicy,
    ServerFailure,
    TooManyRequestsError,
)
from tests.integration.crushclient.conftest import FakeServer, hang_up, json_answer

PROBLEM = {
    "type": "about:blank",
    "title": "Bad Request",
    "status": 400,
    "detail": "title: is too long",
    "code": "bad_field",
    "errors": [{"field": "title", "code": "max_length", "message": "is too long"}],
}


async def test_a_request_has_the_token_the_query_and_the_body(
    client: Client, server: FakeServer
) -> None:
    server.answers = [json_answer({"ok": True})]
    query = {"q": "a&b", "limit": 3, "deep": True, "absent": None}
    answer = await client.request("POST", "/api/x", body={"a": "é"}, query=query)
    assert answer == {"ok": True}
    (request,) = server.requests
    assert request.headers["Authorization"] == "Bearer crush_secret"
    assert request.headers["User-Agent"].startswith("crushclient/")
    assert dict(request.query) == {"q": "a&b", "limit": "3", "deep": "true"}
    assert server.bodies == ['{"a":"é"}'.encode()]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequestError),
        (401, AuthenticationError),
        (403, NotAllowedError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, NotFoundError),
        (418, ApiError),
        (422, InvalidRequestError),
        (429, TooManyRequestsError),
        (500, ServerFailure),
        (507, ServerFailure),
    ],
)
async def test_a_problem_becomes_an_error_of_its_kind(
    client: Client, server: FakeServer, status: int, kind: type[ApiError]
) -> None:
    server.answers = [json_answer({**PROBLEM, "status": status}, status)]
    with pytest.raises(ApiError) as caught:
        await client.request("POST", "/api/x")
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, str(error)) == (status, "bad_field", "title: is too long")
    assert error.errors == PROBLEM["errors"]
    assert len(server.requests) == 1


@pytest.mark.parametrize("body", [{"message": "no such folder"}, None, "text", [1]])
async def test_other_bodies_of_errors_are_understood(
    client: Client, server: FakeServer, body: object
) -> None:
    server.answers = [json_answer(body, 404)]
    with pytest.raises(NotFoundError) as caught:
        await client.request("GET", "/v1/x")
    expected = "no such folder" if isinstance(body, dict) else "the server answered with status 404"
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("method", "key", "is_repeated"),
    [
        ("GET", "", True),
        ("PUT", "", True),
        ("POST", "", False),
        ("POST", "key", True),
        ("PATCH", "", False),
    ],
)
async def test_only_safe_requests_are_repeated(
    client: Client, server: FakeServer, method: str, key: str, is_repeated: bool
) -> None:
    server.answers = [hang_up, json_answer(None, 503), json_answer({"ok": True})]
    call = client.request(method, "/api/x", body={"a": 1}, idempotency_key=key)
    if is_repeated:
        assert await call == {"ok": True}
        assert [each.headers.get("Idempotency-Key", "") for each in server.requests] == [key] * 3
    else:
        with pytest.raises(ConnectionFailed):
            await call
        assert len(server.requests) == 1


async def test_attempts_are_limited(client: Client, server: FakeServer) -> None:
    server.answers = [json_answer(None, 502)]
    with pytest.raises(ServerFailure):
        await client.request("GET", "/api/x")
    assert len(server.requests) == 4


async def test_a_key_whose_first_request_is_at_work_is_tried_again(
    client: Client, server: FakeServer
) -> None:
    in_use = {"code": "idempotency_key_in_use", "detail": "Try again later."}
    server.answers = [json_answer(in_use, 409), json_answer({"id": "s"}, 201)]
    assert await client.request("POST", "/api/x", idempotency_key="key") == {"id": "s"}


async def test_a_pause_of_the_server_is_kept(client: Client, server: FakeServer) -> None:
    server.answers = [json_answer(None, 429, Retry_After="1"), json_answer({"ok": True})]
    began = asyncio.get_running_loop().time()
    await client.request("GET", "/api/x")
    assert asyncio.get_running_loop().time() - began >= 1


async def test_a_redirect_is_not_followed(client: Client, server: FakeServer) -> None:
    async def elsewhere(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("https://elsewhere.example/")

    server.answers = [elsewhere]
    with pytest.raises(ApiError) as caught:
        await client.request("GET", "/api/x")
    assert caught.value.status == 302
    assert len(server.requests) == 1


async def test_a_response_that_does_not_come_ends_with_a_sentence(server: FakeServer) -> None:
    async def silent(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    server.answers = [silent]
    async with Client(server.url, retry=RetryPolicy(attempts=1)) as client:
        with pytest.raises(ConnectionFailed, match="does not answer in time"):
            await client.request("GET", "/api/x", seconds=0.05)


async def test_lists_are_read_page_by_page(client: Client, server: FakeServer) -> None:
    server.answers = [
        json_answer({"items": [{"id": "a"}, {"id": "b"}], "next": "c2"}),
        json_answer({"items": [{"id": "c"}], "next": None}),
    ]
    ids = [workspace["id"] async for workspace in client.api.workspaces.iterate(limit=2)]
    assert ids == ["a", "b", "c"]
    assert [dict(each.query) for each in server.requests] == [
        {"limit": "2"},
        {"limit": "2", "cursor": "c2"},
    ]


async def test_ids_are_parts_of_an_address_and_nothing_else(
    client: Client, server: FakeServer
) -> None:
    server.answers = [json_answer({"id": "x"})]
    await client.api.workspaces.get("../a?b=c#{d}")
    assert server.requests[0].raw_path == "/api/workspaces/..%2Fa%3Fb%3Dc%23%7Bd%7D"


async def test_a_socket_file_is_an_address(tmp_path: Path) -> None:
    hosts = []

    async def answer(request: web.Request) -> web.StreamResponse:
        hosts.append(request.headers["Host"])
        return web.json_response({"ok": True})

    app = web.Application()
    app.router.add_get("/api/x", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    path = tmp_path / "s"
    await web.UnixSite(runner, str(path)).start()
    try:
        async with Client(f"unix://{path}", token="crush_secret") as client:
            assert await client.request("GET", "/api/x") == {"ok": True}
    finally:
        await runner.cleanup()
    assert hosts == ["api.crush.localhost"]
