"""What cannot be forwarded, or is not answered, is an error that a client understands."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from crushsite.forwarding.exchange import LOOK_SECONDS, RequestReceiver
from crushsite.forwarding.messages import LONGEST_BODY, ForwardedAnswer, ForwardedRequest
from tests.integration.forwarding.ground import Sent, Web, listening, opened
from workspaces.access import OWNER, Caller, Identity
from workspaces.log.deadlines import deadline
from workspaces.log.errors import DatabaseUnreachable, Refusal
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.models import RegisteredProcess, Workspace


async def test_an_answer_that_is_too_large_has_a_code(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    content = orjson.dumps({"options": {"initialize_as": "x"}})
    content = content.replace(b"x", b"x" * (LONGEST_BODY - len(content)))  # the most that is read
    (web.root / "shop" / "crush.json").write_bytes(content)
    change = {"scope": 1, "key": "options.debug", "value": True}
    await web.v1.call("POST", f"/v1/workspaces/{workspace_id}/config/set", change)
    v1 = await web.v1.call("GET", f"/v1/workspaces/{workspace_id}/config")
    assert (v1.status, "more than 1 MiB" in v1.message) == (500, True)
    rest = await web.rest.call("GET", f"/api/workspaces/{workspace_id}/configuration")
    assert (rest.status, rest.json["code"]) == (500, "answer_too_large")
    assert web.seen == []


async def test_a_body_that_is_too_large_is_refused(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    address = f"/v1/workspaces/{workspace_id}/config/set"
    answer = await web.v1.call("POST", address, raw=bytes(LONGEST_BODY + 1))
    assert (answer.status, "at most 1 MiB" in answer.message) == (400, True)


@pytest.mark.parametrize(
    ("headers", "query", "sentence"),
    [
        ([(b"idempotency-key", "é".encode())], "", "must be printable ASCII"),
        ([(b"accept", b"text/html,\t*/*")], "", "must be printable ASCII"),
        ([], "?" + "x" * 20_000, "must have at most 16,384 characters"),
    ],
)
async def test_what_a_worker_would_not_accept_is_refused(
    web: Web, headers: list[tuple[bytes, bytes]], query: str, sentence: str
) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    sent = Sent(await listening(web))
    address = f"/v1/workspaces/{workspace_id}/config{query}"
    answer = await web.v1.call("GET", address, headers=headers)
    assert (answer.status, sentence in answer.message) == (400, True)
    assert sent.messages() == []


async def test_a_query_with_too_many_fields_is_refused(web: Web) -> None:
    await web.add_worker("code")
    answer = await web.rest.call("GET", f"/api/folders?path={web.root}" + "&a" * 100)
    assert (answer.status, answer.json["code"]) == (400, "bad_field")
    assert answer.json["detail"] == "the query: must have at most 100 fields"


async def test_a_lost_command_is_not_waited_for(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    session = (await web.v1.post(f"/v1/workspaces/{workspace_id}/sessions", {"title": "x"}))["id"]
    await web.workers.pop().stop()  # it is registered, and receives nothing
    address = f"/v1/workspaces/{workspace_id}/agent/sessions/{session}/shell"
    impatient = Web(web.root, accept_seconds=0.2)
    async with asyncio.timeout(30):
        answer = await impatient.v1.call("POST", address, {"command": "true"})
    await impatient.stop()
    assert (answer.status, "Look whether it was done" in answer.message) == (503, True)


async def test_a_worker_that_drains_may_complete_what_it_has_accepted(web: Web) -> None:
    worker = await web.register_worker("code")
    has_begun, may_answer = asyncio.Event(), asyncio.Event()

    async def perform(request: ForwardedRequest) -> ForwardedAnswer:
        has_begun.set()
        await may_answer.wait()
        return ForwardedAnswer(request.id, 204, ())

    def refuse(request: ForwardedRequest, refusal: Refusal) -> ForwardedAnswer:
        return ForwardedAnswer(request.id, refusal.status, ())

    receiver = RequestReceiver(lambda: worker, perform, refuse)
    await receiver.start()
    body = {"path": str(web.root), "client_id": new_id()}
    request = asyncio.create_task(web.v1.call("POST", "/v1/workspaces", body))
    await has_begun.wait()
    await read(lambda: RegisteredProcess.objects.update(is_draining=True))
    done, _ = await asyncio.wait({request}, timeout=LOOK_SECONDS + 0.5)
    assert not done
    may_answer.set()
    assert (await request).status == 204
    await receiver.stop()


async def test_the_database_is_waited_for_no_longer_than_elsewhere(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    limits: list[float | None] = []

    async def renew() -> Identity:
        limits.append(deadline())
        if len(limits) > 1:
            raise DatabaseUnreachable
        return OWNER

    web.call_as(Caller(OWNER, renew=renew))
    answer = await web.v1.call("GET", f"/v1/workspaces/{workspace_id}/config")
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")
    assert answer.message.startswith("The database cannot be reached")
    assert None not in limits
    assert web.seen == []


async def test_a_named_path_needs_the_labels_of_its_workspace(web: Web) -> None:
    await web.add_worker("code")
    await opened(web)
    await read(lambda: Workspace.objects.update(labels="gpu"))
    body: dict[str, Any] = {"path": str(web.root / "shop"), "client_id": new_id()}
    assert (await web.v1.call("POST", "/v1/workspaces", body)).status == 503
    await web.add_worker("code", labels=("gpu",))
    assert (await web.v1.call("POST", "/v1/workspaces", body)).status == 200
    assert web.seen == []
