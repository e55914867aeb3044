"""Every endpoint and every command of a socket refuses each wrong identity.

The cases are generated from the URLs and the commands, so a new one is tested without a line here.
"""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from django.urls import URLPattern

from agents.api.stream_commands import COMMANDS
from crushsite.api_urls import urlpatterns
from tests.integration.api.client import Answer, Api
from tests.integration.api.conftest import Opened
from tests.integration.rights import (
    RETIRED,
    Case,
    assert_nothing_for_the_retired,
    call_as_retired,
    cases_of,
    member_of,
    path_of,
    refuse_all,
    retire,
    wrong_callers,
    yes,
)
from workspaces.access import (
    ANONYMOUS,
    OWNER,
    RIGHTS_OF_TOOLS,
    Caller,
    Identity,
    IdentityKind,
    MemberRole,
    Right,
)
from workspaces.delivery.native_socket import Commands

METHODS = ("get", "post", "put", "delete")


def methods_of(pattern: URLPattern, view: Any) -> Iterator[str]:
    allowed = pattern.callback.view_initkwargs.get("http_method_names", METHODS)  # type: ignore[attr-defined]  # of a class's view
    return (method for method in METHODS if method in allowed and hasattr(view, method))


ENDPOINTS = cases_of(urlpatterns, "", methods_of)
# Those that need a client; a retired one gets 409 there.
OF_CLIENTS = {
    "post v1/workspaces",
    "post v1/workspaces/<str:workspace_id>/agent",
    "post v1/workspaces/<str:workspace_id>/current-session",
}


def identity(**more: Any) -> Identity:
    return Identity(IdentityKind.USER, name="ann", user_id=1, **more)


def has_a_message(answer: Answer) -> None:
    assert set(answer.json) == {"message"}


@pytest.mark.parametrize("case", ENDPOINTS, ids=" ".join)
async def test_an_endpoint_refuses_wrong_identities(
    api: Api, workspace: Opened, case: Case
) -> None:
    if case[2] is Right.PUBLIC:
        api.caller = Caller(ANONYMOUS)
        assert (await api.call(case[0].upper(), path_of(case[1]))).status == 200
        return
    await refuse_all(api, workspace.id, case, has_a_message)


@pytest.mark.parametrize(
    "case", [case for case in ENDPOINTS if case[2] not in RIGHTS_OF_TOOLS], ids=" ".join
)
async def test_an_endpoint_for_people_refuses_tools(
    api: Api, workspace: Opened, case: Case
) -> None:
    api.caller = Caller(OWNER, is_tool=yes)
    path = path_of(case[1], workspace_id=workspace.id)
    answer = await api.call(case[0].upper(), path, {})
    assert answer.status == 403
    assert "tool" in answer.message


@pytest.mark.parametrize("case", ENDPOINTS, ids=" ".join)
async def test_an_endpoint_does_nothing_for_a_retired_client(
    api: Api, workspace: Opened, case: Case
) -> None:
    session_id = await workspace.session()
    status = await call_as_retired(api, workspace.id, session_id, case)
    needs_client = f"{case[0]} {case[1]}" in OF_CLIENTS
    assert (status == 409) == needs_client, status


async def test_a_new_folder_is_opened_by_those_with_rights_on_the_server(
    api: Api, workspace: Opened, tmp_path: Any
) -> None:
    new = tmp_path / "new"
    new.mkdir()
    body = {"path": str(new), "client_id": workspace.client_id}
    known = {"path": str(workspace.path), "client_id": workspace.client_id}
    viewer = identity(roles={workspace.id: MemberRole.VIEWER})
    api.caller = Caller(viewer)
    assert (await api.call("POST", "/v1/workspaces", body)).status == 403
    assert (await api.call("POST", "/v1/workspaces", known)).status == 200
    assert (await api.call("POST", "/v1/workspaces", known | {"yolo": True})).status == 403
    api.caller = Caller(OWNER, is_tool=yes)
    assert (await api.call("POST", "/v1/workspaces", known | {"yolo": True})).status == 403
    assert (await api.call("POST", "/v1/workspaces", known)).status == 200


async def test_a_list_shows_only_what_the_caller_may_read(api: Api, workspace: Opened) -> None:
    api.caller = Caller(identity())
    assert (await api.call("GET", "/v1/workspaces")).json == []
    api.caller = Caller(identity(roles={workspace.id: MemberRole.VIEWER}))
    assert [w["id"] for w in (await api.call("GET", "/v1/workspaces")).json] == [workspace.id]


class Replies(list[bytes]):
    async def add(self, message: bytes) -> None:
        self.append(message)


@pytest.mark.parametrize("name", sorted(COMMANDS))
async def test_a_command_refuses_wrong_identities(workspace: Opened, name: str) -> None:
    right = COMMANDS[name].right
    async with wrong_callers(right, workspace.id) as wrong:
        for one in wrong:
            code = b"unauthenticated" if one.status == 401 else b"forbidden"
            reply = await reply_to(workspace.id, one.caller, {"command": name})
            assert b'"code":"' + code + b'"' in reply, one.name
    if right not in RIGHTS_OF_TOOLS:
        reply = await reply_to(workspace.id, Caller(OWNER, is_tool=yes), {"command": name})
        assert b'"code":"forbidden_to_tools"' in reply


@pytest.mark.parametrize("name", sorted(COMMANDS))
async def test_a_command_does_nothing_for_a_retired_client(workspace: Opened, name: str) -> None:
    session_id = await workspace.session()
    await retire()
    body = {"command": name, "session_id": session_id, "run_id": "run-1", "text": "hello"}
    reply = await reply_to(workspace.id, member_of(workspace.id), body, client_id=RETIRED)
    refused = (b"client_retired", b"client_not_attached")
    assert any(code in reply for code in refused) == (name in {"prompt", "show"}), reply
    await assert_nothing_for_the_retired()


async def reply_to(
    workspace_id: str, caller: Caller, body: dict[str, Any], *, client_id: str = ""
) -> bytes:
    replies = Replies()
    commands = Commands(
        workspace_id, COMMANDS, caller=caller, client_id=client_id, reply=replies.add
    )
    await commands.take(orjson.dumps({"id": 1, **body}))
    await commands.finish()
    (reply,) = replies
    return reply
