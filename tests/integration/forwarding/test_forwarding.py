"""A web process without folders: a worker performs the requests about them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from channels.layers import get_channel_layer

from crushsite.forwarding.exchange import group_of
from tests.integration.api.client import Answer
from tests.integration.forwarding.ground import Sent, Web, listening, opened
from workspaces.access import ANONYMOUS, OWNER, Caller, Identity, IdentityKind, MemberRole
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.models import FileRead, RegisteredProcess, Workspace


async def test_a_worker_opens_a_folder_and_reads_it(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    assert (await read(Workspace.objects.get)).pk == workspace_id

    shown = await web.v1.get(f"/v1/workspaces/{workspace_id}")
    assert shown["path"] == str(web.root / "shop")
    assert shown["config"] == await web.v1.get(f"/v1/workspaces/{workspace_id}/config")
    paths = await web.rest.get(f"/api/workspaces/{workspace_id}/paths?q=price")
    assert paths["items"] == [{"path": "prices.txt", "is_folder": False}]
    folders = await web.rest.get(f"/api/folders?path={web.root}/s")
    assert [each["workspace_id"] for each in folders["items"]] == [workspace_id]
    assert web.seen == []


async def test_a_worker_writes_what_a_request_changes(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    below = f"/v1/workspaces/{workspace_id}"
    session = (await web.v1.post(f"{below}/sessions", {"title": "x"}))["id"]
    body = {"session_id": session, "path": "prices.txt"}
    await web.v1.post(f"{below}/filetracker/read", body)
    row = await read(FileRead.objects.get)
    assert row.path == str(web.root / "shop" / "prices.txt")
    change = {"scope": 1, "key": "options.debug", "value": True}
    await web.v1.post(f"{below}/config/set", change)
    assert (await web.v1.get(f"{below}/config"))["options"]["debug"] is True
    assert web.seen == [f"{below}/sessions"]


V1 = [
    ("GET", "lsps/none/diagnostics", None),
    ("POST", "lsps/start", {"path": "prices.txt"}),
    ("POST", "lsps/stop", {}),
    ("GET", "mcp/states", None),
    ("GET", "mcp/prompts", None),
    ("GET", "mcp/pending-auth", None),
    ("POST", "mcp/refresh-tools", {"name": "none"}),
    ("GET", "skills", None),
    ("GET", "agent", None),
    ("GET", "project/needs-init", None),
]
REST = [
    ("GET", "language-servers/none/diagnostics", None),
    ("POST", "language-servers/start", {"path": "prices.txt"}),
    ("GET", "mcp-servers", None),
    ("POST", "mcp-servers/none/refresh", {"what": "tools"}),
    ("GET", "configuration", None),
    ("GET", "models", None),
    ("GET", "skills", None),
    ("GET", "trust", None),
]


async def test_a_worker_performs_what_concerns_the_folders_programs(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    calls = [(web.v1, "v1", call) for call in V1] + [(web.rest, "api", call) for call in REST]
    for api, prefix, (method, address, body) in calls:
        answer = await api.call(method, f"/{prefix}/workspaces/{workspace_id}/{address}", body)
        assert answer.status < 500, address
        assert b"not found" not in answer.body or answer.status == 404
    body = {"path": str(web.root / "shop"), "asks_model": False}
    assert (await web.rest.call("POST", "/api/diagnosis", body)).json["version"]
    assert web.seen == []


async def test_without_a_worker_a_request_is_refused_and_may_be_repeated(web: Web) -> None:
    await web.add_worker("data")
    path = str(web.root)
    body = {"path": path, "client_id": new_id()}
    v1 = await web.v1.call("POST", "/v1/workspaces", body)
    assert (v1.status, v1.headers["retry-after"]) == (503, "5")
    assert v1.message.startswith("No worker that has the folder")
    rest = await web.rest.call("POST", "/api/workspaces", {"path": path})
    assert (rest.status, rest.headers["retry-after"]) == (503, "5")
    assert (rest.json["code"], rest.content_type) == ("folder_unserved", "application/problem+json")
    assert web.seen == []


async def test_a_folder_outside_all_roots_is_read_here(web: Web, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    await web.v1.post("/v1/workspaces", {"path": str(other), "client_id": new_id()})
    assert web.seen == ["/v1/workspaces"]


async def test_rights_are_checked_before_anything_is_sent(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    sent = Sent(await listening(web))
    roles = {workspace_id: MemberRole.VIEWER}
    for identity, status in ((ANONYMOUS, 401), (Identity(IdentityKind.USER, roles=roles), 403)):
        web.call_as(Caller(identity))
        changed = await web.v1.call("POST", f"/v1/workspaces/{workspace_id}/config/set", {})
        assert changed.status == status
        new = {"path": str(web.root), "client_id": new_id()}
        assert (await web.v1.call("POST", "/v1/workspaces", new)).status == status
    assert sent.messages() == []

    async def yes() -> bool:
        return True

    web.call_as(Caller(OWNER, is_tool=yes))
    answer = await web.v1.call("POST", f"/v1/workspaces/{workspace_id}/config/set", {})
    assert answer.status == 403
    assert sent.messages() == []
    assert (await web.v1.call("GET", f"/v1/workspaces/{workspace_id}/config")).status == 200
    assert len(sent.messages()) == 1


async def test_the_workers_refusals_reach_the_client(web: Web) -> None:
    await web.add_worker("code")
    missing = {"path": str(web.root / "none"), "client_id": new_id()}
    answer: Answer = await web.v1.call("POST", "/v1/workspaces", missing)
    assert (answer.status, answer.message) == (400, "path: does not exist")
    rest = await web.rest.call("POST", "/api/workspaces", {"path": str(web.root / "none")})
    assert (rest.status, rest.json["code"]) == (400, "bad_field")
    assert web.seen == []


async def test_messages_are_encrypted_and_a_repeated_one_is_performed_once(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    sent = Sent(await listening(web))
    session = (await web.v1.post(f"/v1/workspaces/{workspace_id}/sessions", {"title": "x"}))["id"]
    body = {"session_id": session, "path": "prices.txt"}
    await web.v1.post(f"/v1/workspaces/{workspace_id}/filetracker/read", body)
    (message,) = sent.messages()
    assert b"prices" not in orjson.dumps(message)

    layer: Any = get_channel_layer()
    await read(lambda: FileRead.objects.all().delete())
    for repeated in (message, {"type": "forwarded", "sealed": "x"}, {"type": "forwarded"}):
        await layer.group_send(group_of(web.ids[0]), repeated)
    # It still works, and what was sent before is done by then: messages are received in order.
    assert (await web.v1.call("GET", f"/v1/workspaces/{workspace_id}/config")).status == 200
    assert await read(FileRead.objects.count) == 0


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_worker_that_is_gone_is_not_waited_for(web: Web, method: str) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    channel = await listening(web)
    await web.workers.pop().stop()  # it dies: it is registered, and answers no more
    address = f"/v1/workspaces/{workspace_id}/" + ("config" if method == "GET" else "config/set")
    request = asyncio.create_task(web.v1.call(method, address, {}))
    layer: Any = get_channel_layer()
    await layer.receive(channel)
    await read(lambda: RegisteredProcess.objects.update(is_lost=True))
    answer = await request
    assert answer.status == 503
    is_reading = method == "GET"
    assert ("Look whether it was done" in answer.message) is not is_reading
    assert answer.headers["retry-after"] == "5"
