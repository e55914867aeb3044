"""Clients of one path share one workspace: its streams, its questions, its end."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conversation import roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

TOUCH = '[[tool=bash {"command": "touch made.txt", "description": "make"}]] [[n=3]]'


@pytest.mark.server_env(CRUSH_SERVER_DETACH_GRACE="0.2")
async def test_two_clients_share_a_workspace_until_the_last_leaves(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(server), project()
    link = path.parent / "link"
    link.symlink_to(path)
    a, b = await take_seat(client, path), await take_seat(client, link)
    assert a.workspace.id == b.workspace.id
    session = await a.workspace.session()
    await a.workspace.prompt(session, "[[n=30 d=10]]", "shared")
    await asyncio.gather(a.stream.words(session, 2), b.stream.words(session, 2))
    await a.stream.abort()
    complete = await b.stream.run_complete(session, "shared")
    assert len(complete["text"].split()) == 30
    # One left, one is there: the workspace lives on past the grace of the first.
    await asyncio.sleep(0.5)
    assert (await b.workspace.get())["id"] == a.workspace.id
    await b.stream.close()
    async with asyncio.timeout(60):
        while await _status(client, a.workspace.id) != 404:
            await asyncio.sleep(0.05)
    # Its sessions are kept, and found again with the path.
    again = await client.workspace(path)
    assert [s["id"] for s in await again.sessions()] == [session]
    assert roles_and_finishes(await again.messages(session)) == [
        ("user", "stop"),
        ("assistant", "end_turn"),
    ]


async def _status(client: Client, workspace_id: str) -> int:
    async with client.http.session.get(f"{client.http.url}/v1/workspaces/{workspace_id}") as answer:
        return answer.status


async def test_the_first_answer_to_a_permission_counts_and_all_clients_are_notified(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(shared_server), project("asking")
    a, b = await take_seat(client, path), await take_seat(client, path)
    session = await a.workspace.session()
    await a.workspace.prompt(session, TOUCH, "asks")
    requests = [
        (await seat.stream.wait_for(lambda e: e.type == "permission_request")).payload
        for seat in (a, b)
    ]
    assert requests[0] == requests[1]
    request = requests[0]
    assert request["tool_name"] == "bash"
    assert request["action"] == "execute"
    assert request["path"] == str(path)
    assert request["description"] == "Execute command: touch made.txt"
    assert not (path / "made.txt").exists()
    # A client that comes late is shown the question too.
    late = await take_seat(client, path)
    shown = await late.stream.wait_for(lambda e: e.type == "permission_request")
    assert shown.payload == request
    assert await b.workspace.grant(request) is True
    assert await a.workspace.grant(request, "deny") is False
    for seat in (a, b, late):
        notification = await seat.stream.wait_for(
            lambda e: e.type == "permission_notification" and e.payload["granted"]
        )
        assert notification.payload == {
            "tool_call_id": request["tool_call_id"],
            "granted": True,
            "denied": False,
        }
        complete = await seat.stream.run_complete(session, "asks")
        assert "error" not in complete
    assert (path / "made.txt").exists()
    assert roles_and_finishes(await a.workspace.messages(session)) == [
        ("user", "stop"),
        ("assistant", "tool_use"),
        ("tool", "stop"),
        ("assistant", "end_turn"),
    ]


@pytest.mark.server_env(CRUSH_SERVER_DETACH_GRACE="0.1")
async def test_a_run_outlives_the_last_client_and_then_the_workspace_closes(
    server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    client, path = connect(server), project()
    seat = await take_seat(client, path)
    session = await seat.workspace.session()
    gate = model.new_gate()
    await seat.workspace.prompt(session, f"[[n=3 gate={gate}]]", "alone")
    await model.wait_at_gate(gate)
    await seat.stream.abort()
    await asyncio.sleep(0.4)
    assert await _status(client, seat.workspace.id) == 200  # it works on, and stays open
    model.open_gate(gate)
    async with asyncio.timeout(60):
        while await _status(client, seat.workspace.id) != 404:
            await asyncio.sleep(0.05)
    again = await take_seat(client, path)
    messages = await again.workspace.messages(session)
    assert roles_and_finishes(messages) == [("user", "stop"), ("assistant", "end_turn")]
