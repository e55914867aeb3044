"""The handler itself: requests that break off, fail, or are none of its own."""

import asyncio
import importlib
import logging
import threading
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest
from django.http import HttpResponse
from django.urls import URLPattern, path

from crushsite.asgi.routing import ApiHandler, LazyDjango
from tests.integration.api.client import Api, scope_of
from tests.integration.api.conftest import Opened
from workspaces.access import Right
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.json_parser import parse_body

urlpatterns: list[URLPattern] = []


class Gate:
    """A view that waits in its middle."""

    def __init__(self) -> None:
        self.reached, self.may_end, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()


async def silence(message: Any) -> None:
    """A client that has left takes nothing."""


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def handler(gate: Gate) -> ApiHandler:
    class Waiting(ApiView):
        rights: ClassVar = {"post": Right.PUBLIC}

        async def post(self) -> HttpResponse:
            gate.reached.set()
            await gate.may_end.wait()
            gate.ended.set()
            return empty_answer()

    class Failing(ApiView):
        rights: ClassVar = {"get": Right.PUBLIC}

        async def get(self) -> HttpResponse:
            raise ZeroDivisionError("secret detail")

    class Threads(ApiView):
        rights: ClassVar = {"get": Right.PUBLIC}

        async def get(self) -> HttpResponse:
            return json_answer(threading.current_thread() is threading.main_thread())

    class Echo(ApiView):
        rights: ClassVar = {"post": Right.PUBLIC}

        async def post(self) -> HttpResponse:
            return json_answer(parse_body(self.request.read()))

    urlpatterns[:] = [
        path("waiting", Waiting.as_view()),
        path("failing", Failing.as_view()),
        path("threads", Threads.as_view()),
        path("echo", Echo.as_view()),
    ]
    from django.urls import clear_url_caches

    clear_url_caches()
    return ApiHandler(__name__)


async def test_what_was_asked_for_is_done_when_the_server_gives_the_request_up(
    handler: ApiHandler, gate: Gate
) -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    request = asyncio.create_task(handler(scope_of("POST", "/waiting"), receive, silence))
    await gate.reached.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    gate.may_end.set()
    await handler.finish()
    assert gate.ended.is_set()


async def test_a_request_whose_body_never_ends_is_none(handler: ApiHandler, gate: Gate) -> None:
    messages = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await handler(scope_of("POST", "/waiting"), receive, send)
    assert sent == []
    assert not gate.reached.is_set()


async def test_a_body_in_pieces_without_a_length_is_read(handler: ApiHandler) -> None:
    body = orjson.dumps({"a": "ä" * 1000})
    messages = [
        {"type": "http.request", "body": body[i : i + 100], "more_body": i + 100 < len(body)}
        for i in range(0, len(body), 100)
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await handler(scope_of("POST", "/echo"), receive, send)
    assert sent[0]["status"] == 200
    assert sent[1]["body"] == body


async def test_a_fault_of_ours_is_logged_and_told_without_detail(
    handler: ApiHandler, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await Api(handler).call("GET", "/failing")
    assert (answer.status, answer.json) == (500, {"message": "internal error"})
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


async def test_a_view_runs_in_the_loops_own_thread(handler: ApiHandler) -> None:
    assert await Api(handler).get("/threads") is True


async def test_a_path_without_its_raw_spelling_is_found(handler: ApiHandler) -> None:
    scope = scope_of("GET", "/threads")
    del scope["raw_path"]
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await handler(scope, receive, send)
    assert sent[0]["status"] == 200


async def test_a_prompt_is_accepted_although_its_client_left(workspace: Opened) -> None:
    session_id = await workspace.session()
    body = orjson.dumps({"session_id": session_id, "prompt": "hello"})

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = scope_of("POST", f"{workspace.url}/agent")
    request = asyncio.create_task(workspace.api.handler(scope, receive, silence))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await workspace.api.handler.finish()
    session = await workspace.api.get(f"{workspace.url}/sessions/{session_id}")
    assert session["is_busy"] is True


async def test_a_head_request_is_answered_like_a_get(workspace: Opened) -> None:
    assert (await workspace.api.call("HEAD", workspace.url)).status == 200


async def test_pages_are_served_by_django_when_they_are_asked_for(api: Api) -> None:
    pages = LazyDjango()

    async def ask(address: str) -> int:
        messages = [{"type": "http.request", "body": b"", "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        await pages(scope_of("GET", address), receive, send)
        return int(sent[0]["status"])

    assert await asyncio.gather(ask("/admin/"), ask("/admin/login/")) == [302, 200]
    assert await ask("/nowhere") == 404
    await pages.finish()


def test_the_project_takes_its_version_from_the_program() -> None:
    import tomllib

    from workspaces.release import VERSION

    project = tomllib.loads(Path("pyproject.toml").read_text())
    module, _, name = project["tool"]["setuptools"]["dynamic"]["version"]["attr"].rpartition(".")
    assert getattr(importlib.import_module(module), name) == VERSION
