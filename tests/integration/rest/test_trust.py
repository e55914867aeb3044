"""Trust in a folder, by its path and by its workspace."""

import json
from pathlib import Path
from typing import Any

from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.access import Caller, Identity, IdentityKind, MemberRole
from workspaces.models import Workspace


def member(workspace: Opened, role: MemberRole) -> Caller:
    return Caller(Identity(IdentityKind.USER, name="ann", user_id=7, roles={workspace.id: role}))


async def test_a_folder_is_trusted_by_the_digest_that_was_shown(
    rest: Api, folder: Path, settings: Any
) -> None:
    settings.CRUSH_TRUST = "ask"
    (folder / "crush.json").write_text(json.dumps({"mcp": {"x": {"command": "touch X"}}}))
    shown = (await rest.call("GET", f"/api/trust?path={folder}")).json
    assert (shown["state"], shown["mode"]) == ("open", "ask")
    body = {"path": str(folder), "answer": "allow"}
    without = await rest.call("POST", "/api/trust", body)
    assert (without.status, without.json["code"]) == (400, "bad_field")
    wrong = await rest.call("POST", "/api/trust", body | {"digest": "0" * 64})
    assert (wrong.status, wrong.json["code"]) == (409, "trust_changed")
    done = await rest.call("POST", "/api/trust", body | {"digest": shown["digest"]})
    assert done.json["state"] == "trusted"
    (answer,) = (await rest.call("GET", "/api/trust")).json["answers"]
    assert (answer["path"], answer["allowed"]) == (str(folder), True)
    revoked = await rest.call("POST", "/api/trust", body | {"answer": "revoke"})
    assert revoked.json["state"] == "open"


async def test_the_right_in_a_workspace_is_enough_for_its_folder(
    rest: Api, workspace: Opened, settings: Any
) -> None:
    settings.CRUSH_TRUST = "ask"
    (workspace.path / "crush.json").write_text(json.dumps({"mcp": {"x": {"command": "touch X"}}}))
    await Workspace.objects.filter(pk=workspace.id).aupdate(is_open=False)
    path = f"/api/workspaces/{workspace.id}/trust"

    rest.caller = member(workspace, MemberRole.APPROVER)
    shown = await rest.get(path)
    assert (shown["state"], shown["path"]) == ("open", str(workspace.path))
    assert "touch X" in shown["description"]
    allow = {"answer": "allow", "digest": shown["digest"]}
    assert (await rest.call("POST", path, allow)).status == 403

    rest.caller = member(workspace, MemberRole.ADMIN)
    assert (await rest.call("GET", "/api/trust")).status == 403
    wrong = await rest.call("POST", path, allow | {"digest": "0" * 64})
    assert (wrong.status, wrong.json["code"]) == (409, "trust_changed")
    assert (await rest.call("POST", path, allow)).json["state"] == "trusted"
    (entry,) = (await rest.get(f"/api/workspaces/{workspace.id}/audit?act=trust"))["items"]
    assert (entry["target"], entry["outcome"]) == (str(workspace.path), "allow")
    assert (await rest.call("POST", path, {"answer": "revoke"})).json["state"] == "open"
