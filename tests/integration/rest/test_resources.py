"""What every native resource has in common: errors, pages, entity tags, keys, limits."""

import asyncio
import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, ClassVar

import orjson
import pytest
from django.test import override_settings
from django.urls import path
from drf_spectacular.settings import spectacular_settings
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.access import Caller, Identity, IdentityKind, MemberRole, Right
from workspaces.log.errors import CursorAhead
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Workspace
from workspaces.rest.documentation import openapi
from workspaces.rest.view import Resource


class NoteSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=10)
    parts = serializers.ListField(child=serializers.IntegerField(), required=False)


class Notes(Resource):
    """A resource of this test. Its rows are workspaces, which need no others."""

    rights: ClassVar = {"get": Right.SIGNED_IN, "post": Right.PROMPT}
    serializer_class = NoteSerializer
    ordering = ("created_at",)
    calls: ClassVar[list[str]] = []
    gate: ClassVar[asyncio.Event | None] = None

    def get(self, _: Request) -> Response:
        return self.page(Workspace.objects.all(), lambda row: row.path)

    def post(self, _: Request) -> Response:
        text = self.body()["text"]
        self.calls.append(text)
        if text == "conflict":
            raise CursorAhead
        if text == "fault":
            raise ZeroDivisionError
        self.act(self._create, text)
        return Response({"text": text, "count": len(self.calls)}, status=201)

    async def _create(self, text: str) -> None:
        if self.gate is not None:
            await self.gate.wait()

        def insert(_: Transaction) -> None:
            Workspace.objects.create(path=f"/{text}", created_at=len(self.calls))

        await writer.write("", insert)


urlpatterns = [path("api/notes", Notes.as_view())]


@pytest.fixture
def notes(rest: Api) -> Any:
    Notes.calls.clear()
    Notes.gate = None
    with override_settings(ROOT_URLCONF=__name__):
        yield rest


async def send(notes: Api, text: str, key: str = "", **more: Any) -> Any:
    headers = [(b"idempotency-key", key.encode())] if key else []
    return await notes.call("POST", "/api/notes", {"text": text}, headers=headers, **more)


async def called() -> None:
    """Waits until a request is being carried out."""
    async with asyncio.timeout(10):
        while not Notes.calls:
            await asyncio.sleep(0.01)


async def test_errors_are_problem_details(notes: Api, quiet: Any) -> None:
    wrong = await notes.call("POST", "/api/notes", {"text": "much too long", "parts": [1, "x"]})
    assert wrong.status == 400
    assert wrong.content_type == "application/problem+json"
    assert wrong.json["code"] == "bad_field"
    assert [(e["field"], e["code"]) for e in wrong.json["errors"]] == [
        ("text", "max_length"),
        ("parts[1]", "invalid"),
    ]
    refused = await send(notes, "conflict")
    assert (refused.status, refused.json["code"]) == (409, CursorAhead.code)
    assert refused.json["title"] == "Conflict"
    malformed = await notes.call("POST", "/api/notes", raw=b"{")
    assert (malformed.status, malformed.json["code"]) == (400, "parse_error")
    method = await notes.call("PUT", "/api/notes", {})
    assert (method.status, method.json["code"]) == (405, "method_not_allowed")
    fault = await send(notes, "fault")
    assert (fault.status, fault.json["code"]) == (500, "internal")
    assert "ZeroDivision" not in fault.body.decode()
    assert "ZeroDivisionError" in quiet.text


async def test_unknown_addresses_are_problems_too(rest: Api) -> None:
    for address in ("/api/nothing", "/api/", "/api/workspaces/a/b/c"):
        for method in ("GET", "POST", "PATCH"):
            answer = await rest.call(method, address)
            assert (answer.status, answer.json["code"]) == (404, "unknown_address"), address


async def test_a_list_comes_in_pages(notes: Api) -> None:
    for number in range(7):
        await send(notes, str(number))
    found, cursor = [], ""
    for _ in range(4):
        page = await notes.get(f"/api/notes?limit=3{cursor}")
        found += page["items"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
        await send(notes, f"later {len(found)}"[:10])
    assert found[:7] == [f"/{number}" for number in range(7)]


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "limit=-1", "cursor=%00"])
async def test_a_wrong_page_is_an_error(notes: Api, query: str) -> None:
    assert (await notes.call("GET", f"/api/notes?{query}")).status == 400


async def test_an_invented_cursor_is_an_error(notes: Api) -> None:
    for cursor in ("cD1hYmM=", "cD0lMDA=", "bz05OTk5OTk5", "cA==", "x", "%C3%BC"):
        answer = await notes.call("GET", f"/api/notes?cursor={cursor}")
        assert (answer.status, answer.json["code"]) == (400, "bad_field"), cursor


async def test_a_response_has_an_entity_tag(notes: Api) -> None:
    await send(notes, "one")
    first = await notes.call("GET", "/api/notes")
    tag = first.headers["etag"]
    again = await notes.call("GET", "/api/notes", headers=[(b"if-none-match", tag.encode())])
    assert (again.status, again.body) == (304, b"")
    await send(notes, "two")
    changed = await notes.call("GET", "/api/notes", headers=[(b"if-none-match", tag.encode())])
    assert changed.status == 200


async def test_a_repeated_request_gets_the_first_response(notes: Api) -> None:
    first = await send(notes, "once", key="k1")
    again = await send(notes, "once", key="k1")
    assert (first.status, first.json) == (again.status, again.json) == (201, first.json)
    assert again.headers["idempotency-replayed"] == "true"
    assert Notes.calls == ["once"]
    other = await send(notes, "other", key="k1")
    assert (other.status, other.json["code"]) == (422, "idempotency_key_taken")
    refused = [await send(notes, "conflict", key="k2") for _ in range(2)]
    assert [answer.status for answer in refused] == [409, 409]
    assert Notes.calls == ["once", "conflict"]


async def test_a_key_belongs_to_its_caller(notes: Api) -> None:
    await send(notes, "mine", key="k")
    everything = {"*": MemberRole.ADMIN}
    notes.caller = Caller(Identity(IdentityKind.USER, name="bob", user_id=7, roles=everything))
    assert (await send(notes, "his", key="k")).status == 201


async def test_a_failed_request_may_be_repeated(notes: Api) -> None:
    statuses = [(await send(notes, "fault", key="k")).status for _ in range(2)]
    assert statuses == [500, 500]
    assert Notes.calls == ["fault", "fault"]


async def test_a_key_is_in_use_while_its_request_is_carried_out(notes: Api) -> None:
    Notes.gate = asyncio.Event()
    first = asyncio.create_task(send(notes, "slow", key="k"))
    await called()
    second = await send(notes, "slow", key="k")
    assert (second.status, second.json["code"]) == (409, "idempotency_key_in_use")
    Notes.gate.set()
    assert (await first).status == 201
    assert Notes.calls == ["slow"]


async def test_a_request_that_writes_completes_without_its_client(notes: Api) -> None:
    Notes.gate = asyncio.Event()
    request = asyncio.create_task(send(notes, "left"))
    await called()
    request.cancel()
    Notes.gate.set()
    await notes.handler.finish()
    assert (await notes.get("/api/notes"))["items"] == ["/left"]


@override_settings(CRUSH_REQUESTS_PER_SECOND=3)
async def test_requests_are_limited_except_for_the_owner(notes: Api) -> None:
    assert {(await notes.call("GET", "/api/notes")).status for _ in range(5)} == {200}
    notes.caller = Caller(Identity(IdentityKind.USER, name="ann", user_id=1))
    answers = [await notes.call("GET", "/api/notes") for _ in range(20)]
    assert [answer.status for answer in answers[:3]] == [200] * 3
    limited = next(answer for answer in answers if answer.status == 429)
    assert limited.json["code"] == "throttled"
    assert int(limited.headers["retry-after"]) >= 1


def test_the_schema_has_no_warnings() -> None:
    with override_spectacular(DISABLE_ERRORS_AND_WARNINGS=False), silenced() as warnings:
        openapi.__wrapped__()
    assert warnings == []


@contextmanager
def override_spectacular(**values: Any) -> Iterator[None]:
    spectacular_settings.apply_patches(values)
    try:
        yield
    finally:
        spectacular_settings.clear_patches()


@contextmanager
def silenced() -> Iterator[list[str]]:
    """Yields what the library prints while it builds the schema."""
    found: list[str] = []
    with redirect_stderr(io.StringIO()) as printed:
        yield found
    found += printed.getvalue().splitlines()


async def test_the_schema_is_complete(rest: Api, workspace: Opened) -> None:
    """Every field of every object has a description."""
    schema = orjson.loads((await rest.call("GET", "/api/schema")).body)
    assert schema["openapi"].startswith("3.1")
    missing = [
        f"{name}.{field}"
        for name, component in schema["components"]["schemas"].items()
        for field, about in component.get("properties", {}).items()
        if "description" not in about and "description" not in str(about.get("allOf", ""))
    ]
    assert missing == []
    operations = [op["operationId"] for item in schema["paths"].values() for op in item.values()]
    assert len(operations) == len(set(operations))
