"""A run waits for its answer while servers stop, clients leave and others attach."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import bash, permission_request, results
from tests.acceptance.conversation import roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.native import NativeSocket
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.watching import LogWatch

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]
DONE = [("user", "stop"), ("assistant", "tool_use"), ("tool", "stop"), ("assistant", "end_turn")]
PATIENT = {"CRUSH_SERVER_CREATE_GRACE": "600", "CRUSH_SERVER_DETACH_GRACE": "600"}


async def test_a_request_outlives_the_server_and_another_client_answers_it(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(shape, env=PATIENT)
    server.start()
    path = project("outlives")
    seat = await take_seat(connect(server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("echo once >> made.txt"), "parked")
    request = await permission_request(seat, session)
    await seat.stream.close()
    for stop in (server.stop, server.kill9):
        await asyncio.to_thread(stop)
        await asyncio.to_thread(server.start)
    client = connect(server)
    late = await take_seat(client, path)
    assert late.workspace.id == seat.workspace.id
    assert await permission_request(late) == request
    assert (await late.workspace.get_session(session))["is_busy"] is True
    assert await late.workspace.grant(request) is True
    complete = await late.stream.run_complete(session, "parked")
    assert "error" not in complete
    assert (path / "made.txt").read_text() == "once\n"
    assert roles_and_finishes(await late.workspace.messages(session)) == DONE


@pytest.mark.server_env(CRUSH_SERVER_DETACH_GRACE="0.1")
async def test_a_parked_run_returns_when_its_folder_is_opened_again(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(server), project("returns")
    seat = await take_seat(client, path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch made.txt"), "parked")
    request = await permission_request(seat, session)
    await seat.stream.abort()
    async with asyncio.timeout(60):
        while seat.workspace.id in [w["id"] for w in await client.workspaces()]:
            await asyncio.sleep(0.05)
    for call_of in (seat.workspace.agent(), seat.workspace.grant(request)):
        with pytest.raises(UnexpectedStatus) as refusal:
            await call_of
        assert refusal.value.status == 404
    again = await take_seat(client, path)
    assert await permission_request(again) == request
    await again.workspace.grant(request)
    assert "error" not in await again.stream.run_complete(session, "parked")
    assert (path / "made.txt").exists()


async def test_a_cancel_takes_the_open_question_with_it(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(shared_server), project("cancelled")
    seat = await take_seat(client, path)
    log = LogWatch(shared_server)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch made.txt"), "waits")
    request = await permission_request(seat, session)
    await seat.workspace.cancel(session)
    complete = await seat.stream.run_complete(session, "waits")
    assert complete["cancelled"] is True
    denied = await seat.stream.wait_for(
        lambda e: e.type == "permission_notification" and e.payload["denied"]
    )
    assert denied.payload["tool_call_id"] == request["tool_call_id"]
    assert await seat.workspace.grant(request) is False
    messages = await seat.workspace.messages(session)
    (result,) = results(messages)
    assert result["is_error"] is True
    assert roles_and_finishes(messages) == [
        ("user", "stop"),
        ("assistant", "canceled"),
        ("tool", "stop"),
    ]
    assert not (path / "made.txt").exists()
    assert seat.stream.errors() == []
    late = await take_seat(client, path)
    await late.workspace.prompt(session, "[[n=2]]", "after")
    await late.stream.run_complete(session, "after")
    assert late.stream.of("permission_request") == []
    assert log.loud() == []


async def test_a_native_client_that_attaches_late_finds_the_request_and_answers_it(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("late")
    client = connect(shared_server)
    seat = await take_seat(client, path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch late.txt"), "late")
    request = await permission_request(seat, session)

    address = f"/api/workspaces/{seat.workspace.id}/snapshot"
    snapshot = await client.http.call("GET", address)
    (waiting,) = snapshot["permissions"]
    (run,) = snapshot["runs"]
    assert (waiting["id"], run["run_id"]) == (request["id"], "late")
    socket = await NativeSocket(client.http, seat.workspace.id, after=snapshot["number"]).open()
    await socket.send(
        {"id": 1, "command": "answer", "request_id": waiting["id"], "answer": "allow"}
    )
    await socket.wait_for(
        lambda item: item.type == "run.finished" and item.body["data"]["run"]["key"] == run["key"]
    )
    await socket.close()
    assert (path / "late.txt").exists()
    after = await client.http.call("GET", address)
    assert (after["permissions"], after["runs"]) == ([], [])
