"""Approvals, questions, grants and the approval policy over REST."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import time_machine

from agents.api.stream_commands import COMMANDS
from permissions.actions.questions import add_questions
from permissions.actions.requests import request_permission
from permissions.models import PermissionRequest
from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.access import Caller, Identity, IdentityKind, MemberRole
from workspaces.log.errors import Forbidden
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Event, TrustRequest, Workspace

SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}


def person(name: str, user_id: int, role: MemberRole, workspace_id: str) -> Caller:
    roles = {workspace_id: role}
    return Caller(Identity(IdentityKind.USER, name=name, user_id=user_id, roles=roles))


async def ask(workspace: Opened, session_id: str, name: str = "ls", **more: Any) -> str:
    facts: dict[str, Any] = {
        "run_key": 1,
        "tool_call_id": f"call-{name}",
        "tool_name": "bash",
        "action": "execute",
        "path": str(workspace.path),
        "description": f"Execute command: {name}",
        "params": {"command": name},
        "schema": SCHEMA,
    } | more

    def job(tx: Transaction) -> str:
        return request_permission(tx, workspace.id, session_id, **facts)

    return await writer.write(workspace.id, job)


async def ask_questions(workspace: Opened, session_id: str, call_id: str = "c") -> str:
    question = {"id": "q", "type": "yes_no", "question": "Go?"}

    def job(tx: Transaction) -> str:
        return add_questions(
            tx, workspace.id, session_id, run_key=1, tool_call_id=call_id, questions=[question]
        )

    return await writer.write(workspace.id, job)


def approval(workspace: Opened, request_id: str) -> str:
    return f"/api/workspaces/{workspace.id}/approvals/{request_id}"


async def in_thread(query: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(query)


async def test_the_inbox_has_what_is_open_and_what_was_answered(
    rest: Api, workspace: Opened
) -> None:
    session_id, other = await workspace.session(), await workspace.session()
    first, second = await ask(workspace, session_id), await ask(workspace, other, "pwd")
    listed = (await rest.get("/api/approvals"))["items"]
    assert {item["id"] for item in listed} == {first, second}
    assert {item["state"] for item in listed} == {"pending"}
    done = await rest.call("POST", f"{approval(workspace, first)}/answer", {"answer": "allow"})
    assert done.json["resolved"] is True
    assert [item["id"] for item in (await rest.get("/api/approvals"))["items"]] == [second]
    (past,) = (await rest.get("/api/approvals?state=past"))["items"]
    assert (past["id"], past["state"], past["scope"]) == (first, "allowed", "once")
    assert past["author"] == {"kind": "owner", "name": "owner", "user_id": None, "via": "rest"}
    found = await rest.get(f"/api/approvals?session_id={other}&workspace_id={workspace.id}")
    assert [item["id"] for item in found["items"]] == [second]
    assert (await rest.get("/api/approvals?tool_name=edit"))["items"] == []


async def test_the_inbox_has_only_workspaces_that_the_caller_may_read(
    rest: Api, workspace: Opened
) -> None:
    await ask(workspace, await workspace.session())
    rest.caller = person("eve", 9, MemberRole.ADMIN, "elsewhere")
    for address in ("/api/approvals", "/api/questions", "/api/grants"):
        assert (await rest.get(address))["items"] == []
    rest.caller = person("ann", 8, MemberRole.VIEWER, workspace.id)
    assert len((await rest.get("/api/approvals"))["items"]) == 1


async def test_the_detail_shows_the_change_and_the_schema(rest: Api, workspace: Opened) -> None:
    params = {"file_path": "/p/a", "old_content": "one\n", "new_content": "two\n"}
    request_id = await ask(workspace, await workspace.session(), params=params, files=["/p/a"])
    shown = await rest.get(approval(workspace, request_id))
    assert "-one\n+two" in shown["diff"]
    assert (shown["schema"], shown["arguments"], shown["run_key"]) == (SCHEMA, {}, 1)
    assert shown["files"] == ["/p/a"]
    unknown = await rest.call("GET", approval(workspace, "unknown"))
    assert (unknown.status, unknown.json["code"]) == (404, "approval_unknown")


async def test_a_later_answer_gets_the_author_of_the_first(rest: Api, workspace: Opened) -> None:
    request_id = await ask(workspace, await workspace.session())
    answer = f"{approval(workspace, request_id)}/answer"
    rest.caller = person("ann", 8, MemberRole.APPROVER, workspace.id)
    first = await rest.call("POST", answer, {"answer": "deny", "reason": "not now"})
    rest.caller = person("bob", 9, MemberRole.APPROVER, workspace.id)
    late = await rest.call("POST", answer, {"answer": "allow"})
    assert (first.status, late.status) == (200, 200)
    assert first.json["resolved"] is True
    assert late.json == {**first.json, "resolved": False}
    assert late.json["author"]["name"] == "ann"
    shown = await rest.get(approval(workspace, request_id))
    assert (shown["state"], shown["reason"]) == ("denied", "not now")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"answer": "allow_session"}, "answer"),
        ({"answer": "maybe"}, "answer"),
        ({}, "answer"),
        ({"answer": "allow", "scope": "always"}, "scope"),
        ({"answer": "deny", "scope": "session"}, "scope"),
        ({"answer": "allow", "until": 1, "scope": "session"}, "until"),
        ({"answer": "allow", "arguments": {"command": 1}}, "arguments"),
        ({"answer": "allow", "arguments": {}}, "arguments"),
        ({"answer": "allow", "arguments": []}, "arguments"),
        ({"answer": "allow", "folder": "/tmp", "scope": "session"}, "folder"),
    ],
)
async def test_a_wrong_answer_is_an_error_and_leaves_the_request_open(
    rest: Api, workspace: Opened, body: dict[str, Any], field: str
) -> None:
    request_id = await ask(workspace, await workspace.session())
    answer = await rest.call("POST", f"{approval(workspace, request_id)}/answer", body)
    assert (answer.status, answer.json["code"]) == (400, "bad_field")
    assert field in answer.json["detail"]
    assert len((await rest.get("/api/approvals"))["items"]) == 1


async def test_changed_arguments_are_stored_for_the_call(rest: Api, workspace: Opened) -> None:
    request_id = await ask(workspace, await workspace.session())
    body = {"answer": "allow", "arguments": {"command": "pwd"}}
    await rest.post(f"{approval(workspace, request_id)}/answer", body)
    shown = await rest.get(approval(workspace, request_id))
    assert shown["has_changed_arguments"] is True
    stored = await in_thread(PermissionRequest.objects.get)
    assert stored.arguments == '{"command":"pwd"}'


async def test_an_answer_opens_a_closed_workspace_again(rest: Api, workspace: Opened) -> None:
    request_id = await ask(workspace, await workspace.session())
    await in_thread(lambda: Workspace.objects.update(is_open=False))
    assert (await rest.get(approval(workspace, request_id)))["state"] == "pending"
    await rest.post(f"{approval(workspace, request_id)}/answer", {"answer": "allow"})
    assert await in_thread(lambda: Workspace.objects.get().is_open)
    assert await in_thread(lambda: Event.objects.filter(kind="workspace.opened").count()) == 2


async def test_questions_are_listed_answered_and_dismissed(rest: Api, workspace: Opened) -> None:
    session_id = await workspace.session()
    first = await ask_questions(workspace, session_id)
    second = await ask_questions(workspace, session_id, "d")
    one = f"/api/workspaces/{workspace.id}/questions/{first}"
    assert len((await rest.get("/api/questions"))["items"]) == 2
    wrong = {"responses": [{"request_id": "other", "yes": True}]}
    assert (await rest.call("POST", f"{one}/answer", wrong)).status == 400
    given = {"responses": [{"request_id": "q", "yes": True}]}
    assert (await rest.post(f"{one}/answer", given))["resolved"] is True
    assert (await rest.post(f"{one}/answer", given))["author"]["via"] == "rest"
    two = f"/api/workspaces/{workspace.id}/questions/{second}"
    assert (await rest.post(f"{two}/dismiss"))["state"] == "dismissed"
    assert (await rest.get(one))["responses"] == [{"request_id": "q", "yes": True}]
    assert (await rest.get("/api/questions"))["items"] == []
    assert len((await rest.get("/api/questions?state=past"))["items"]) == 2
    unknown = await rest.call("GET", f"/api/workspaces/{workspace.id}/questions/x")
    assert (unknown.status, unknown.json["code"]) == (404, "question_unknown")


async def test_grants_are_listed_and_revoked_by_their_person(rest: Api, workspace: Opened) -> None:
    request_id = await ask(workspace, await workspace.session())
    rest.caller = ann = person("ann", 8, MemberRole.APPROVER, workspace.id)
    body = {"answer": "allow", "scope": "workspace"}
    await rest.post(f"{approval(workspace, request_id)}/answer", body)
    (grant,) = (await rest.get("/api/grants?is_own=true"))["items"]
    assert (grant["scope"], grant["author"]["name"]) == ("workspace", "ann")
    address = f"/api/workspaces/{workspace.id}/grants/{grant['id']}"
    rest.caller = person("bob", 9, MemberRole.APPROVER, workspace.id)
    assert (await rest.get("/api/grants?is_own=true"))["items"] == []
    assert await rest.get(address) == grant
    refused = await rest.call("DELETE", address)
    assert (refused.status, refused.json["code"]) == (403, "forbidden")
    rest.caller = ann
    assert (await rest.call("DELETE", address)).status == 204
    gone = await rest.call("DELETE", address)
    assert (gone.status, gone.json["code"]) == (404, "grant_unknown")


async def test_an_expired_grant_is_not_listed(rest: Api, workspace: Opened) -> None:
    request_id = await ask(workspace, await workspace.session())
    with time_machine.travel("2026-01-01T00:00:00+00:00", tick=True):
        until = 1_767_225_600 + 3600
        body = {"answer": "allow", "scope": "session", "until": until}
        await rest.post(f"{approval(workspace, request_id)}/answer", body)
        (grant,) = (await rest.get("/api/grants"))["items"]
        assert grant["expires_at"] == until
    assert (await rest.get("/api/grants"))["items"] == []


async def test_the_policy_of_a_workspace_is_shown_and_changed(rest: Api, workspace: Opened) -> None:
    address = f"/api/workspaces/{workspace.id}/approval-policy"
    assert (await rest.get(address))["deny_after_seconds"] is None
    body = {"notify_after_seconds": 60, "deny_after_seconds": 3600}
    request_id = await ask(workspace, await workspace.session())
    changed = await rest.call("PUT", address, body)
    assert changed.status == 200
    assert {name: changed.json[name] for name in body} == body
    assert changed.json["author"]["name"] == "owner"
    assert await rest.get(address) == changed.json
    shown = await rest.get(approval(workspace, request_id))
    assert shown["deny_at"] == pytest.approx(shown["asked_at"] + 3600, abs=1)
    for wrong in ({}, body | {"deny_after_seconds": 0}, body | {"notify_after_seconds": "x"}):
        assert (await rest.call("PUT", address, wrong)).status == 400
    assert (await rest.call("GET", "/api/workspaces/unknown/approval-policy")).status == 404


@pytest.mark.parametrize("by", ["id", "tool_call_id"])
async def test_an_approver_cannot_trust_a_folder(api: Api, workspace: Opened, by: str) -> None:
    request = TrustRequest(path=str(workspace.path), digest="d", description="?", asked_at=1)
    await in_thread(request.save)
    ids = {"id": request.pk, "tool_call_id": f"trust-{request.pk}"}
    body = {"permission": {by: ids[by]}, "action": "allow"}
    api.caller = person("ann", 8, MemberRole.APPROVER, workspace.id)
    check = COMMANDS["answer"].check
    assert check is not None
    with pytest.raises(Forbidden):
        await check(api.caller, workspace.id, {"request_id": request.pk})
    assert (await api.call("POST", f"{workspace.url}/permissions/grant", body)).status == 403
    assert (await in_thread(TrustRequest.objects.get)).state == "pending"
    api.caller = person("boss", 9, MemberRole.ADMIN, workspace.id)
    await check(api.caller, workspace.id, {"request_id": request.pk})
    assert (await api.post(f"{workspace.url}/permissions/grant", body))["resolved"] is True


async def test_an_unknown_request_is_not_about_trust(api: Api, workspace: Opened) -> None:
    api.caller = person("ann", 8, MemberRole.APPROVER, workspace.id)
    for unknown in ("x", "x" * 200, "trust-x"):
        body = {"permission": {"id": unknown}, "action": "allow"}
        answer = await api.post(f"{workspace.url}/permissions/grant", body)
        assert answer == {"resolved": False}
