"""What an answer allows, for how long, and which of several answers counts."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.calling import bash, call, permission_request, results, run_call, write
from tests.acceptance.conversation import roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.native import NativeSocket
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


async def test_allowing_once_is_valid_for_one_call(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("once"))
    session = await seat.workspace.session()
    for number in range(3):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, bash("touch same.txt"))
        request = await permission_request(seat, session, start=start)
        assert await seat.workspace.grant(request) is True
        await seat.stream.run_complete(session, start=start)
        assert len(seat.stream.of("permission_request")) == number + 1


async def test_allowing_for_the_session_covers_the_same_tool_and_folder_in_it_alone(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("for-session")
    (path / "below").mkdir()
    seat = await take_seat(connect(shared_server), path)
    session, other = await seat.workspace.session(), await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch one.txt"))
    await seat.workspace.grant(await permission_request(seat, session), "allow_session")
    await seat.stream.run_complete(session)
    # The same tool, action and folder: whatever the command is.
    await run_call(seat, session, bash("touch two.txt"))
    assert (path / "two.txt").exists()
    assert len(seat.stream.of("permission_request")) == 1
    # Another folder, another tool, another session: each needs permission.
    for where, prompt in [
        (session, call("bash", command="touch x", description="t", working_dir="below")),
        (session, call("write", file_path="w.txt", content="x")),
        (other, bash("touch three.txt")),
    ]:
        start = seat.stream.mark()
        await seat.workspace.prompt(where, prompt)
        request = await permission_request(seat, where, start=start)
        await seat.workspace.grant(request, "deny")
        await seat.stream.run_complete(where, start=start)
    assert not (path / "three.txt").exists()


async def test_allowing_a_write_for_the_session_is_for_that_file(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("one-file")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, write("notes.txt", "one"))
    await seat.workspace.grant(await permission_request(seat, session), "allow_session")
    await seat.stream.run_complete(session)
    await run_call(seat, session, call("view", file_path="notes.txt"))
    await run_call(seat, session, write("notes.txt", "two"))
    assert (path / "notes.txt").read_text() == "two"
    assert len(seat.stream.of("permission_request")) == 1
    for other in ("other.txt", "notes.txt/../deeper/notes.txt", ".crush.json", ".git/config"):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, write(other))
        await seat.workspace.grant(await permission_request(seat, session, start=start), "deny")
        await seat.stream.run_complete(session, start=start)
    own = {".crush", "crush.json"}
    assert [entry.name for entry in path.iterdir() if entry.name not in own] == ["notes.txt"]


async def test_a_person_can_allow_a_folder_for_the_session(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path, client = project("one-folder"), connect(shared_server)
    seat = await take_seat(client, path)
    session = await seat.workspace.session()
    socket = await NativeSocket(client.http, seat.workspace.id).open()
    await seat.workspace.prompt(session, write("src/a.txt"))
    shown = await socket.wait_for(lambda item: item.type == "permission.requested")
    request = shown.body["data"]["request"]
    assert request["files"] == [str(path / "src" / "a.txt")]
    answer = {"command": "answer", "request_id": request["id"], "answer": "allow_session"}
    await socket.send({"id": 1, **answer, "folder": str(path / "other")})
    refused = await socket.wait_for(lambda item: item.type == "reply" and item.body["id"] == 1)
    assert not refused.body["ok"]
    assert "folder" in refused.body["message"]
    await socket.send({"id": 2, **answer, "folder": str(path / "src")})
    await socket.wait_for(lambda item: item.type == "reply" and item.body["id"] == 2)
    await seat.stream.run_complete(session)
    await run_call(seat, session, write("src/deep/b.txt"))
    assert (path / "src" / "deep" / "b.txt").exists()
    assert len(seat.stream.of("permission_request")) == 1
    for other in ("c.txt", "src/.git/config", "src/crush.json"):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, write(other))
        await seat.workspace.grant(await permission_request(seat, session, start=start), "deny")
        await seat.stream.run_complete(session, start=start)
    await socket.close()


async def test_a_denial_ends_the_turn_without_another_model_call(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project("denied")
    seat = await take_seat(connect(shared_server), path)
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} {bash('touch made.txt')}", "denied")
    request = await permission_request(seat, session)
    assert await seat.workspace.grant(request, "deny") is True
    notification = await seat.stream.wait_for(
        lambda e: e.type == "permission_notification" and e.payload["denied"]
    )
    assert notification.payload["tool_call_id"] == request["tool_call_id"]
    assert notification.payload["granted"] is False
    complete = await seat.stream.run_complete(session, "denied")
    assert "error" not in complete
    assert not complete.get("cancelled")
    messages = await seat.workspace.messages(session)
    assert [role for role, _ in roles_and_finishes(messages)][:3] == ["user", "assistant", "tool"]
    (result,) = results(messages)
    assert result["is_error"] is True
    assert result["content"].startswith("User denied permission")
    assert not (path / "made.txt").exists()
    turns = [entry for entry in model.served(mark) if not entry["title"]]
    assert len(turns) == 1
    assert seat.stream.errors() == []
    # The session is free for the next prompt.
    await seat.workspace.prompt(session, "[[n=2]]", "next")
    assert "error" not in await seat.stream.run_complete(session, "next")


async def test_simultaneous_requests_of_several_sessions_are_answered_separately(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("at-once")
    seat = await take_seat(connect(shared_server), path)
    sessions = [await seat.workspace.session() for _ in range(6)]
    for number, session in enumerate(sessions):
        await seat.workspace.prompt(session, bash(f"touch f{number}"), f"run-{session}")
    requests = [await permission_request(seat, session) for session in sessions]
    assert len({request["id"] for request in requests}) == 6
    order = list(enumerate(zip(sessions, requests, strict=True)))
    for number, (session, request) in reversed(order):
        await seat.workspace.grant(request, "allow" if number % 2 else "deny")
        await seat.stream.run_complete(session, f"run-{session}")
        # Those that were not answered yet still wait.
        for waiting in sessions[:number]:
            assert (await seat.workspace.agent_session(waiting))["is_busy"] is True
    assert sorted(file.name for file in path.glob("f*")) == ["f1", "f3", "f5"]


async def test_a_request_is_answered_by_its_id_or_by_its_tool_call(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("by-id"))
    for name in ("id", "tool_call_id"):
        session = await seat.workspace.session()
        await seat.workspace.prompt(session, bash("touch x"))
        request = await permission_request(seat, session)
        assert await seat.workspace.grant({"id": "nobody"}) is False
        assert await seat.workspace.grant({"id": "nobody", name: "x"}) is False
        assert await seat.workspace.grant({name: request[name]}) is True
        assert await seat.workspace.grant({name: request[name]}) is False
        assert "error" not in await seat.stream.run_complete(session)


async def test_a_request_of_another_workspace_cannot_be_answered_here(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(shared_server)
    seat = await take_seat(client, project("here"))
    other = await take_seat(client, project("there"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch x"))
    request = await permission_request(seat, session)
    assert await other.workspace.grant(request) is False
    assert other.stream.of("permission_request") == []
    assert await seat.workspace.grant(request) is True


async def test_one_of_many_simultaneous_answers_counts(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("race"))
    for _ in range(10):
        session = await seat.workspace.session()
        await seat.workspace.prompt(session, bash("touch x"))
        request = await permission_request(seat, session)
        answers = ["allow", "deny", "allow_session"] * 5
        resolved = await asyncio.gather(*(seat.workspace.grant(request, a) for a in answers))
        assert resolved.count(True) == 1
        assert "error" not in await seat.stream.run_complete(session)
        notifications = [
            e.payload
            for e in seat.stream.of("permission_notification")
            if e.payload["tool_call_id"] == request["tool_call_id"]
            and (e.payload["granted"] or e.payload["denied"])
        ]
        assert len(notifications) == 1
        assert notifications[0]["denied"] is (answers[resolved.index(True)] == "deny")
