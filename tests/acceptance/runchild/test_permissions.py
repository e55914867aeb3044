"""A child's tools run with its parent's leave, and only those it is given."""

import json
import uuid
from pathlib import Path

import pytest

from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.runchild.turns import Spawn, answered, bash, events, last_request
from tests.integration.fleet.children import Json, Parent, dialled, terminal


async def test_tools_run_in_the_workspace_after_the_parents_approval(
    parent: Parent, work: Path
) -> None:
    await parent.run(bash("echo made > made.txt && echo done"))
    body, frames = await answered(parent, approved=True)
    assert (body["tool_name"], body["resource"]) == ("bash", str(work))
    assert "made.txt" in body["question"]
    assert (work / "made.txt").read_text() == "made\n"
    (result,) = events(frames, "tool_complete")
    assert result["result"] == {"success": True, "result": "done"}
    assert frames[-1]["status"] == "completed"


async def test_a_call_is_announced_before_its_permission_request(parent: Parent) -> None:
    await parent.run(bash("touch x"))
    started = await parent.frame()
    assert started["event"]["type"] == "tool_start"
    assert started["event"]["tool_name"] == "bash"
    assert started["event"]["arguments"] == {"command": "touch x", "description": "Do it"}
    await parent.send({"kind": "cancel"})
    assert (await parent.frames())[-1] == terminal("cancelled")


async def test_a_denied_call_does_nothing(parent: Parent, work: Path) -> None:
    await parent.run(bash("touch denied.txt"))
    _, frames = await answered(parent, approved=False)
    assert not (work / "denied.txt").exists()
    assert frames[-1]["kind"] == "terminal"


async def test_two_permission_requests_are_open_at_once(parent: Parent, work: Path) -> None:
    calls = " ;; ".join(
        "bash " + json.dumps({"command": f"touch {name}", "description": "Touch"})
        for name in ("a", "b")
    )
    await parent.run(f"[[calls={calls}]] [[n=1]]")
    for _ in range(2):
        request = await parent.until("approval_request")
        await parent.send({"kind": "approval_reply", "id": request["id"], "approved": True})
    assert (await parent.frames())[-1]["status"] == "completed"
    assert sorted(path.name for path in work.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    "capabilities",
    [{}, {"enforce_permissions": False}, {"enforce_permissions": True, "bypass": True}],
    ids=["default", "not enforced", "bypass"],
)
async def test_no_request_is_sent_where_permissions_are_not_enforced(
    spawn: Spawn, work: Path, capabilities: Json
) -> None:
    child = spawn(capabilities=capabilities)
    async with dialled(await child.endpoint()) as parent:
        await parent.run(bash("touch made.txt"))
        frames = await parent.frames()
    assert [frame["kind"] for frame in frames].count("approval_request") == 0
    assert (work / "made.txt").exists()


async def test_without_an_approver_questions_are_denied(spawn: Spawn, work: Path) -> None:
    child = spawn(capabilities={"enforce_permissions": True, "no_human_approver": True})
    async with dialled(await child.endpoint()) as parent:
        await parent.run(bash("touch made.txt"))
        frames = await parent.frames()
    assert [frame["kind"] for frame in frames].count("approval_request") == 0
    assert not (work / "made.txt").exists()


async def test_a_child_has_only_the_configured_tools(spawn: Spawn, model: ScriptedModel) -> None:
    child, mark = spawn(disabled_tools=["Bash", "write"]), uuid.uuid4().hex
    async with dialled(await child.endpoint()) as parent:
        await parent.run(f"[[n=1]] which tools {mark}")
        await parent.frames()
    names = _tools_of_the_last_request(model, mark)
    assert {"view", "edit"} <= names
    assert not names & {"bash", "write", "question", "agent"}


async def test_a_guardian_only_reads(spawn: Spawn, model: ScriptedModel) -> None:
    child, mark = spawn(capabilities={"guardian_read_only": True}), uuid.uuid4().hex
    async with dialled(await child.endpoint()) as parent:
        await parent.run(f"[[n=1]] which tools {mark}")
        await parent.frames()
    names = _tools_of_the_last_request(model, mark)
    assert "view" in names
    assert not names & {"bash", "write", "edit", "multiedit", "download", "fetch"}


def _tools_of_the_last_request(model: ScriptedModel, mark: str) -> set[str]:
    body = last_request(model, mark)["body"]
    return {tool["function"]["name"] for tool in body.get("tools", ())}
