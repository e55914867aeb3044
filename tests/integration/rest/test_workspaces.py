"""Workspaces as native resources: opened, shown with one's rights, changed and released."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from tests.integration.rest.test_workspace_resources import at, viewer_of
from workspaces.access import OWNER, Caller, Identity, IdentityKind, MemberRole
from workspaces.models import Event, Workspace


async def test_a_folder_is_opened_for_a_client_and_released(rest: Api, folder: Path) -> None:
    client_id = str(uuid.uuid4())
    answer = await rest.call(
        "POST", "/api/workspaces", {"path": str(folder), "client_id": client_id}
    )
    assert answer.status == 201
    opened = answer.json
    assert (opened["path"], opened["permission_mode"]) == (str(folder), "normal")
    assert opened["client_id"] == client_id
    listed = (await rest.call("GET", "/api/workspaces")).json["items"]
    assert [one["id"] for one in listed] == [opened["id"]]
    path = f"/api/workspaces/{opened['id']}"
    assert (await rest.call("DELETE", f"{path}?client_id={client_id}")).status == 204
    closed = (await rest.call("GET", path)).json
    assert (closed["is_open"], closed["path"]) == (False, str(folder))
    for change in (("PATCH", {"permission_mode": "yolo"}), ("DELETE", None)):
        assert (await rest.call(change[0], path, change[1])).status == 404
    assert (await rest.call("GET", "/api/workspaces/unknown")).status == 404


async def test_a_workspace_shows_what_the_caller_may_do(rest: Api, workspace: Opened) -> None:
    everything = (await rest.get(at(workspace)))["can"]
    assert {"read", "prompt", "answer", "trust", "administer"} <= set(everything)
    assert (await rest.get("/api/workspaces"))["items"][0]["can"] == everything
    opened = await rest.call("POST", "/api/workspaces", {"path": str(workspace.path)})
    assert opened.json["can"] == everything
    assert (await rest.get("/api/me"))["can"] == everything

    rest.caller = viewer_of(workspace.id)
    assert (await rest.get(at(workspace)))["can"] == ["read", "open"]
    assert (await rest.get("/api/me"))["can"] == []

    async def yes() -> bool:
        return True

    rest.caller = Caller(OWNER, is_tool=yes)
    assert (await rest.get(at(workspace)))["can"] == ["read", "open", "prompt"]


async def test_a_client_without_an_id_gets_one(rest: Api, folder: Path) -> None:
    body = {"path": str(folder), "permission_mode": "yolo"}
    opened = (await rest.call("POST", "/api/workspaces", body)).json
    assert str(uuid.UUID(opened["client_id"])) == opened["client_id"]
    assert opened["permission_mode"] == "yolo"


async def test_only_administrators_open_new_folders_and_close_for_all(
    rest: Api, workspace: Opened, tmp_path: Path
) -> None:
    rest.caller = viewer_of(workspace.id)
    other = tmp_path / "other"
    other.mkdir()
    refused = await rest.call("POST", "/api/workspaces", {"path": str(other)})
    assert (refused.status, refused.json["code"]) == (403, "forbidden")
    again = await rest.call("POST", "/api/workspaces", {"path": str(workspace.path)})
    assert (again.status, again.json["id"]) == (201, workspace.id)
    assert (await rest.call("DELETE", at(workspace))).status == 403
    rest.caller = Caller(Identity(IdentityKind.OWNER, is_staff=True))
    assert (await rest.call("DELETE", at(workspace))).status == 204
    row = await asyncio.to_thread(Workspace.objects.get, pk=workspace.id)
    assert not row.is_open


@pytest.mark.parametrize("body", [{}, {"path": "relative"}, {"path": "/", "client_id": "x"}])
async def test_what_cannot_be_opened_is_a_wrong_field(rest: Api, body: Any) -> None:
    answer = await rest.call("POST", "/api/workspaces", body)
    assert (answer.status, answer.json["code"]) == (400, "bad_field")


async def test_the_permission_mode_is_changed_with_an_event(rest: Api, workspace: Opened) -> None:
    answer = await rest.call("PATCH", at(workspace), {"permission_mode": "yolo"})
    assert (answer.status, answer.json["permission_mode"]) == (200, "yolo")
    kinds = await asyncio.to_thread(lambda: list(Event.objects.values_list("kind", flat=True)))
    assert "workspace.updated" in kinds
    wrong = await rest.call("PATCH", at(workspace), {"permission_mode": "none"})
    assert wrong.json["errors"][0]["field"] == "permission_mode"


async def test_administrators_change_the_labels(rest: Api, workspace: Opened) -> None:
    assert (await rest.get(at(workspace)))["labels"] == []
    answer = await rest.call("PATCH", at(workspace), {"labels": ["gpu", "arm", "gpu"]})
    assert (answer.status, answer.json["labels"]) == (200, ["arm", "gpu"])
    assert (answer.json["permission_mode"], (await rest.get(at(workspace)))["labels"]) == (
        "normal",
        ["arm", "gpu"],
    )
    for wrong in ({}, {"labels": ["GPU"]}, {"labels": ["a,b"]}, {"labels": ["x"] * 16}):
        refused = await rest.call("PATCH", at(workspace), wrong)
        assert (refused.status, refused.json["code"]) == (400, "bad_field")
    roles = {workspace.id: MemberRole.APPROVER}
    rest.caller = Caller(Identity(IdentityKind.USER, "ann", 7, roles=roles))
    assert (await rest.call("PATCH", at(workspace), {"labels": []})).status == 403
    rest.caller = Caller(OWNER)
    assert (await rest.call("PATCH", at(workspace), {"labels": []})).json["labels"] == []
