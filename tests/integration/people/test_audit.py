"""Each act of a person is in the audit, together with what it did."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from people.actions.audit import Act, record
from people.models import AuditEntry
from people.queries import audit_entries, audit_wire
from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened, api, folder, transactional_db, workspace
from workspaces.access import Actor, Caller, Identity, IdentityKind, MemberRole
from workspaces.log.reader import read
from workspaces.log.writer import writer

__all__ = ["api", "folder", "transactional_db", "workspace"]

CLIENT = "0b8d6c4e-7a35-4e67-9a6b-0f9c1f9a7d11"
ANN = Actor(IdentityKind.TOKEN, "ann", 7, "token-1", CLIENT, "192.0.2.7")


async def entries(**options: Any) -> list[dict[str, Any]]:
    return [dict(audit_wire(entry)) for entry in await read(lambda: audit_entries(**options))]


async def acts() -> list[tuple[str, str, str]]:
    return [(each["act"], each["target"], each["outcome"]) for each in await entries()]


async def test_an_entry_names_who_did_what_to_what(api: Api, workspace: Opened) -> None:
    await writer.write(
        "",
        lambda tx: record(
            tx,
            ANN,
            Act.PROMPT,
            workspace_id=workspace.id,
            session_id="s",
            target="x" * 1000,
            outcome="accepted",
            details={"a": 1},
        ),
    )
    (entry,) = await entries(workspace_id=workspace.id)
    assert entry["actor"] == {"kind": "token", "name": "ann", "token_id": "token-1"}
    assert (entry["client_id"], entry["address"]) == (CLIENT, "192.0.2.7")
    assert (entry["act"], entry["target"], entry["outcome"]) == ("prompt", "x" * 200, "accepted")
    assert (entry["session_id"], entry["details"]) == ("s", {"a": 1})
    assert await entries(workspace_id="another") == []
    assert await entries(after=entry["id"]) == []
    assert await entries(after=0) == [entry]


async def test_an_entry_is_stored_with_its_act_or_not_at_all(api: Api) -> None:
    def fail(tx: Any) -> None:
        record(tx, ANN, Act.CANCEL)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await writer.write("", fail)
    assert await entries() == []


async def test_what_the_server_does_itself_is_no_entry(api: Api) -> None:
    await writer.write("", lambda tx: record(tx, None, Act.CANCEL))
    assert await entries() == []


async def test_an_entry_cannot_be_changed_or_deleted(api: Api) -> None:
    await writer.write("", lambda tx: record(tx, ANN, Act.CANCEL))

    def change() -> None:
        entry = AuditEntry.objects.get()
        with pytest.raises(TypeError):
            entry.save()
        with pytest.raises(TypeError):
            entry.delete()

    await read(change)


async def test_the_acts_of_the_api(api: Api, workspace: Opened) -> None:
    who = Identity(IdentityKind.USER, "ann", 1, roles={workspace.id: MemberRole.ADMIN})
    api.caller = Caller(who, address="192.0.2.7")
    url = workspace.url
    session = (await api.post(f"{url}/sessions", {"title": "x"}))["id"]
    await api.post(f"{url}/agent", {"session_id": session, "prompt": "a", "run_id": "r1"})
    await api.post(f"{url}/agent", {"session_id": session, "prompt": "a", "run_id": "r1"})
    await api.post(f"{url}/agent", {"session_id": session, "prompt": "b", "run_id": "r2"})
    await api.post(f"{url}/agent/sessions/{session}/prompts/clear")
    await api.post(f"{url}/agent/sessions/{session}/cancel")
    await api.post(f"{url}/agent/sessions/{session}/cancel")
    grant = {"permission": {"id": "none"}, "action": "allow"}
    await api.post(f"{url}/permissions/grant", grant)
    await api.post(f"{url}/questions/answer", {"batch_request_id": "none", "responses": []})
    await api.post(f"{url}/questions/cancel", {"batch_request_id": "none"})
    await api.post(f"{url}/permissions/skip", {"skip": True})
    await api.post(f"{url}/permissions/mode", {"mode": "normal"})
    await api.call("DELETE", f"{url}/sessions/{session}")
    assert await acts() == [
        ("prompt", "r1", "done"),
        ("prompt", "r2", "queued"),
        ("clear queue", "", "done"),
        ("cancel", "", "done"),
        ("cancel", "", "nothing to cancel"),
        ("answer", "none", "too late"),
        ("answer questions", "none", "too late"),
        ("dismiss questions", "none", "too late"),
        ("permission mode", "", "yolo"),
        ("permission mode", "", "normal"),
        ("delete session", "", "nothing to cancel"),
    ]
    for entry in await entries():
        assert entry["actor"]["name"] == "ann"
        assert entry["address"] == "192.0.2.7"
        assert entry["workspace_id"] == workspace.id


async def test_a_changed_key_is_named_without_its_value(api: Api, workspace: Opened) -> None:
    body = {"scope": 1, "provider_id": "openai", "api_key": "sk-secret"}
    await api.call("POST", f"{workspace.url}/config/provider-key", body)
    body = {"scope": 1, "key": "options.debug", "value": True}
    await api.post(f"{workspace.url}/config/set", body)
    assert ("configure", "options.debug", "done") in await acts()
    assert "sk-secret" not in str(await entries())


def test_sign_ins_are_recorded(transactional_db: None, client: Client) -> None:
    get_user_model().objects.create_superuser("audited-boss", password="blue-kettle-7")
    page = "/admin/login/"
    # Failures of other tests count for their address and their name.
    client.defaults["REMOTE_ADDR"] = "203.0.113.77"
    client.post(page, {"username": "audited-boss", "password": "wrong"})
    client.post(page, {"username": "my-password-by-mistake", "password": "wrong"})
    client.post(page, {"username": "audited-boss", "password": "blue-kettle-7"})
    client.post("/sign-out/")
    found = [(e.actor, e.act, e.outcome) for e in audit_entries()]
    assert found == [
        ("audited-boss", "sign in", "failed"),
        ("", "sign in", "failed"),
        ("audited-boss", "sign in", "done"),
        ("audited-boss", "sign out", "done"),
    ]
    get_user_model().objects.all().delete()
