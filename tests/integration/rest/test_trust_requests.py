"""Trust requests: listed for who may read, answered by who may trust, and only once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agents.config.cache import config_of_folder
from agents.config.edits.trust_requests import keep_trust_request
from people.models import AuditEntry
from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from tests.integration.rest.test_approvals import person
from workspaces.access import MemberRole
from workspaces.models import Event, TrustRequest


@pytest.fixture(autouse=True)
def _trust(settings: Any) -> None:
    settings.CRUSH_TRUST = "ask"


async def opened(rest: Api, folder: Path) -> str:
    """Opens a folder that waits for trust; returns the address of its request."""
    folder.mkdir()
    (folder / "crush.json").write_text(json.dumps({"mcp": {"x": {"command": "touch X"}}}))
    workspace = await rest.call("POST", "/api/workspaces", {"path": str(folder)})
    workspace_id = workspace.json["id"]
    config = await asyncio.to_thread(config_of_folder, str(folder))
    await keep_trust_request(workspace_id, config)
    listed = await rest.get(f"/api/trust-requests?workspace_id={workspace_id}")
    (request,) = listed["items"]
    return f"/api/workspaces/{workspace_id}/trust-requests/{request['id']}"


def resolutions() -> list[Event]:
    return list(Event.objects.filter(kind="permission.resolved").order_by("id"))


async def test_the_first_answer_to_a_trust_request_counts(rest: Api, tmp_path: Path) -> None:
    first, second = await opened(rest, tmp_path / "one"), await opened(rest, tmp_path / "two")
    listed = (await rest.get("/api/trust-requests"))["items"]
    assert [item["path"] for item in listed] == [str(tmp_path / "two"), str(tmp_path / "one")]
    assert "touch X" in listed[0]["params"]["starts"]
    shown = await rest.get(second)
    assert shown == listed[0]
    assert (shown["state"], shown["answered_at"], shown["session_id"]) == ("pending", None, "")

    denied = await rest.call("POST", f"{second}/answer", {"answer": "deny"})
    owner = {"kind": "owner", "name": "owner", "user_id": None, "via": "rest"}
    assert denied.json == {"resolved": True, "state": "denied", "author": owner}
    late = await rest.call("POST", f"{second}/answer", {"answer": "allow"})
    assert late.json == {"resolved": False, "state": "denied", "author": owner}
    trust = await rest.get(f"/api/trust?path={tmp_path / 'two'}")
    assert trust["state"] == "denied"
    assert [i["path"] for i in (await rest.get("/api/trust-requests"))["items"]] == [
        str(tmp_path / "one")
    ]
    (past,) = (await rest.get("/api/trust-requests?state=past"))["items"]
    assert shown["author"] is None
    assert past == shown | {
        "state": "denied",
        "answered_at": past["answered_at"],
        "author": owner,
    }
    assert past["answered_at"] >= past["asked_at"]

    assert (await rest.call("POST", f"{first}/answer", {"answer": "allow"})).json["resolved"]
    assert (await rest.get(f"/api/trust?path={tmp_path / 'one'}"))["state"] == "trusted"
    closed = [json.loads(event.payload) for event in await asyncio.to_thread(resolutions)]
    assert [(one["state"], one["granted"], one["author"]) for one in closed] == [
        ("denied", False, owner),
        ("allowed", True, owner),
    ]
    outcomes = await asyncio.to_thread(
        lambda: list(AuditEntry.objects.order_by("id").values_list("act", "outcome"))
    )
    assert [one for one in outcomes if one[0] in {"trust", "answer"}] == [
        ("trust", "deny"),
        ("answer", "too late"),
        ("trust", "allow"),
    ]


async def test_trust_requests_need_the_right_to_read_and_their_answers_the_right_to_trust(
    rest: Api, workspace: Opened, tmp_path: Path
) -> None:
    address = await opened(rest, tmp_path / "one")
    rest.caller = person("ann", 8, MemberRole.ADMIN, workspace.id)  # of another workspace
    assert (await rest.get("/api/trust-requests"))["items"] == []
    assert (await rest.call("GET", address)).status == 403
    ours = address.split("/")[3]
    rest.caller = person("bob", 9, MemberRole.APPROVER, ours)
    assert len((await rest.get("/api/trust-requests"))["items"]) == 1
    refused = await rest.call("POST", f"{address}/answer", {"answer": "allow"})
    assert (refused.status, refused.json["code"]) == (403, "forbidden")
    rest.caller = person("boss", 10, MemberRole.ADMIN, ours)
    done = await rest.call("POST", f"{address}/answer", {"answer": "allow"})
    boss = {"kind": "user", "name": "boss", "user_id": "10", "via": "rest"}
    assert done.json == {"resolved": True, "state": "allowed", "author": boss}


async def test_only_trust_requests_of_the_workspace_are_found(
    rest: Api, workspace: Opened, tmp_path: Path
) -> None:
    address = await opened(rest, tmp_path / "one")
    request_id = address.rsplit("/", 1)[1]
    elsewhere = f"/api/workspaces/{workspace.id}/trust-requests/{request_id}"
    assert (await rest.call("GET", elsewhere)).status == 404
    assert (await rest.call("POST", f"{elsewhere}/answer", {"answer": "deny"})).status == 404
    assert (await rest.call("POST", f"{address}/answer", {"answer": "x"})).status == 400
    request = await asyncio.to_thread(TrustRequest.objects.get)
    assert request.state == "pending"
    await rest.call("DELETE", f"/api/workspaces/{address.split('/')[3]}")
    assert (await rest.get("/api/trust-requests"))["items"] == []
    assert (await rest.get(address))["state"] == "pending"
