"""Who is asked, for what, and for how long an answer counts."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import asked, bash, call, eventually, results, run_call
from tests.acceptance.conversation import roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.native import NativeSocket
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.watching import LogWatch

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]

DONE = [("user", "stop"), ("assistant", "tool_use"), ("tool", "stop"), ("assistant", "end_turn")]
PATIENT = {"CRUSH_SERVER_CREATE_GRACE": "600", "CRUSH_SERVER_DETACH_GRACE": "600"}


async def test_a_workspace_that_was_opened_with_yolo_asks_nothing(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("yolo")
    seat = await take_seat(connect(shared_server), path, yolo=True)
    assert await seat.workspace.skips_permissions() is True
    session = await seat.workspace.session()
    await run_call(seat, session, bash("touch made.txt"))
    assert (path / "made.txt").exists()
    assert seat.stream.of("permission_request") == []


async def test_skipping_is_switched_while_the_workspace_lives(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("switched")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.skip_permissions(True)
    await run_call(seat, session, bash("touch one.txt"))
    assert seat.stream.of("permission_request") == []
    await seat.workspace.skip_permissions(False)
    assert await seat.workspace.skips_permissions() is False
    await seat.workspace.prompt(session, bash("touch two.txt"))
    request = await asked(seat, session)
    assert not (path / "two.txt").exists()
    await seat.workspace.grant(request)
    await eventually((path / "two.txt").exists, "the command ran")


async def test_tools_that_the_configuration_allows_are_not_asked_for(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("allowed", permissions={"allowed_tools": ["bash", "edit:write", "write:read"]})
    (path / "a.txt").write_text("one\n")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await run_call(seat, session, bash("touch made.txt"))
    await run_call(seat, session, call("view", file_path="a.txt"))
    edited = await run_call(
        seat, session, call("edit", file_path="a.txt", old_string="one", new_string="two")
    )
    assert not edited["is_error"], edited
    assert (path / "a.txt").read_text() == "two\n"
    assert seat.stream.of("permission_request") == []
    # Neither another tool nor another action of the same tool is meant by that.
    await seat.workspace.prompt(session, call("write", file_path="b.txt", content="x"))
    request = await asked(seat, session)
    assert (request["tool_name"], request["action"]) == ("write", "write")
    await seat.workspace.grant(request, "deny")


async def test_allowing_once_is_asked_again_the_next_time(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("once"))
    session = await seat.workspace.session()
    for number in range(3):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, bash("touch same.txt"))
        request = await asked(seat, session, start=start)
        assert await seat.workspace.grant(request) is True
        await seat.stream.run_complete(session, start=start)
        assert len(seat.stream.of("permission_request")) == number + 1


async def test_allowing_for_the_session_covers_the_same_thing_in_it_alone(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("for-session")
    (path / "below").mkdir()
    seat = await take_seat(connect(shared_server), path)
    session, other = await seat.workspace.session(), await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch one.txt"))
    await seat.workspace.grant(await asked(seat, session), "allow_session")
    await seat.stream.run_complete(session)
    # The same tool, action and folder: whatever the command is.
    await run_call(seat, session, bash("touch two.txt"))
    assert (path / "two.txt").exists()
    assert len(seat.stream.of("permission_request")) == 1
    # Another folder, another tool, another session: each is asked for.
    for where, prompt in [
        (session, call("bash", command="touch x", description="t", working_dir="below")),
        (session, call("write", file_path="w.txt", content="x")),
        (other, bash("touch three.txt")),
    ]:
        start = seat.stream.mark()
        await seat.workspace.prompt(where, prompt)
        request = await asked(seat, where, start=start)
        await seat.workspace.grant(request, "deny")
        await seat.stream.run_complete(where, start=start)
    assert not (path / "three.txt").exists()


def write(name: str, content: str = "x") -> str:
    return call("write", file_path=name, content=content)


async def test_allowing_a_write_for_the_session_is_for_that_file(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("one-file")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, write("notes.txt", "one"))
    await seat.workspace.grant(await asked(seat, session), "allow_session")
    await seat.stream.run_complete(session)
    await run_call(seat, session, call("view", file_path="notes.txt"))
    await run_call(seat, session, write("notes.txt", "two"))
    assert (path / "notes.txt").read_text() == "two"
    assert len(seat.stream.of("permission_request")) == 1
    for other in ("other.txt", "notes.txt/../deeper/notes.txt", ".crush.json", ".git/config"):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, write(other))
        await seat.workspace.grant(await asked(seat, session, start=start), "deny")
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
        await seat.workspace.grant(await asked(seat, session, start=start), "deny")
        await seat.stream.run_complete(session, start=start)
    await socket.close()


async def test_files_that_programs_obey_are_always_asked_for(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    allowing = 'cat > /dev/null; echo \'{"decision": "allow"}\''
    path = project(
        "protected",
        permissions={"allowed_tools": ["write", "bash"]},
        hooks={"PreToolUse": [{"command": allowing, "matcher": "write"},
                              {"command": "./guard.sh", "matcher": "nothing"}]},
    )  # fmt: skip
    (path / "guard.sh").write_text("#!/bin/sh\n")
    (path / "way").symlink_to(path / ".git")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await run_call(seat, session, write("plain.txt"))
    assert seat.stream.of("permission_request") == []
    await run_call(seat, session, call("view", file_path="guard.sh"))
    for name in (
        ".git/hooks/pre-commit",
        "way/config",
        ".crush.json",
        ".envrc",
        ".agents/skills/x/SKILL.md",
        "guard.sh",
    ):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, write(name))
        await seat.workspace.grant(await asked(seat, session, start=start), "deny")
        await seat.stream.run_complete(session, start=start)
    # Allowing for the session allows this once.
    for _ in range(2):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, write(".envrc"))
        await seat.workspace.grant(await asked(seat, session, start=start), "allow_session")
        await seat.stream.run_complete(session, start=start)
        (path / ".envrc").unlink()
    await seat.workspace.skip_permissions(True)
    count = len(seat.stream.of("permission_request"))
    await run_call(seat, session, write(".envrc"))
    assert (path / ".envrc").exists()
    assert len(seat.stream.of("permission_request")) == count


async def test_a_denial_ends_the_turn_without_another_word_of_the_model(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path = project("denied")
    seat = await take_seat(connect(shared_server), path)
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    await seat.workspace.prompt(session, f"{mark} {bash('touch made.txt')}", "denied")
    request = await asked(seat, session)
    assert await seat.workspace.grant(request, "deny") is True
    told = await seat.stream.wait_for(
        lambda e: e.type == "permission_notification" and e.payload["denied"]
    )
    assert told.payload["tool_call_id"] == request["tool_call_id"]
    assert told.payload["granted"] is False
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


async def test_several_calls_of_one_reply_are_each_asked_for(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("several")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    pair = " ;; ".join(
        f'bash {{"command": "touch {name}", "description": "t"}}' for name in ("a", "b")
    )
    await seat.workspace.prompt(session, f"[[calls={pair}]] [[n=2]]", "several")
    start = 0
    for name in ("a", "b"):
        request = await asked(seat, session, start=start)
        assert request["params"]["command"] == f"touch {name}"
        start = seat.stream.mark()
        assert await seat.workspace.grant(request) is True
    assert "error" not in await seat.stream.run_complete(session, "several")
    assert (path / "a").exists()
    assert (path / "b").exists()


async def test_sessions_that_ask_at_once_are_each_answered_for_themselves(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("at-once")
    seat = await take_seat(connect(shared_server), path)
    sessions = [await seat.workspace.session() for _ in range(6)]
    for number, session in enumerate(sessions):
        await seat.workspace.prompt(session, bash(f"touch f{number}"), f"run-{session}")
    requests = [await asked(seat, session) for session in sessions]
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
        request = await asked(seat, session)
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
    request = await asked(seat, session)
    assert await other.workspace.grant(request) is False
    assert other.stream.of("permission_request") == []
    assert await seat.workspace.grant(request) is True


@pytest.mark.parametrize(
    ("command", "is_asked"),
    [
        ("ls -la", False),
        ("cat crush.json", False),
        ("git status; git log | head", False),
        ("echo hi", False),
        ("echo hi > out.txt", True),
        ("cat crush.json | tee out.txt", True),
        ("ls && touch out.txt", True),
        ("ls $(touch out.txt)", True),
        ("ls `touch out.txt`", True),
        ("env touch out.txt", True),
        ("find . -delete", True),
        ("ls\ntouch out.txt", True),
        ("cat <(touch out.txt)", True),
    ],
)
async def test_only_commands_that_cannot_write_run_unasked(
    shared_server: Server, connect: Connect, project: MakeProject, command: str, is_asked: bool
) -> None:
    path = project("commands")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash(command), "run")
    if is_asked:
        request = await asked(seat, session)
        assert request["params"]["command"] == command
        assert sorted(p.name for p in path.iterdir() if p.name != ".crush") == ["crush.json"]
        await seat.workspace.grant(request, "deny")
    await seat.stream.run_complete(session, "run")
    assert len(seat.stream.of("permission_request")) == int(is_asked)


async def test_paths_are_judged_by_where_their_links_lead(
    shared_server: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret\n")
    path = project("links")
    (path / "out").symlink_to(outside)
    (path / "file").symlink_to(outside / "secret.txt")
    (path / "inner").mkdir()
    (path / "in").symlink_to(path / "inner")
    seat = await take_seat(connect(shared_server), path)
    for prompt, tool, target in [
        (call("view", file_path="out/secret.txt"), "view", outside / "secret.txt"),
        (call("view", file_path="file"), "view", outside / "secret.txt"),
        (call("view", file_path="inner/../../../outside/secret.txt"), "view", None),
        (call("ls", path="out"), "ls", outside),
        (call("write", file_path="out/new.txt", content="x"), "write", outside / "new.txt"),
        (call("bash", command="touch x", description="", working_dir="out"), "bash", outside),
    ]:
        session = await seat.workspace.session()
        await seat.workspace.prompt(session, prompt)
        request = await asked(seat, session)
        assert request["tool_name"] == tool
        if target is not None:
            assert request["path"] == str(target)
        await seat.workspace.grant(request, "deny")
        await seat.stream.run_complete(session)
    assert [file.name for file in outside.iterdir()] == ["secret.txt"]
    # Inside it stays inside.
    session = await seat.workspace.session()
    await run_call(seat, session, call("ls", path="in"))
    assert seat.stream.of("permission_request", session) == []


async def test_a_link_that_is_turned_while_the_question_is_open_is_not_followed(
    shared_server: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    path, outside = project("turned"), tmp_path / "elsewhere"
    outside.mkdir()
    (path / "inner").mkdir()
    (path / "link").symlink_to(path / "inner")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, call("write", file_path="link/x.txt", content="x"))
    request = await asked(seat, session)
    (path / "link").unlink()
    (path / "link").symlink_to(outside)
    log = LogWatch(shared_server)
    await seat.workspace.grant(request)
    await seat.stream.run_complete(session)
    assert list(outside.iterdir()) == []
    assert results(await seat.workspace.messages(session))[-1]["is_error"] is True
    assert log.loud() == []


async def test_a_question_outlives_the_server_and_another_client_answers_it(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(shape, env=PATIENT)
    server.start()
    path = project("outlives")
    seat = await take_seat(connect(server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("echo once >> made.txt"), "parked")
    request = await asked(seat, session)
    await seat.stream.close()
    for stop in (server.stop, server.kill9):
        await asyncio.to_thread(stop)
        await asyncio.to_thread(server.start)
    client = connect(server)
    late = await take_seat(client, path)
    assert late.workspace.id == seat.workspace.id
    assert await asked(late) == request
    assert (await late.workspace.get_session(session))["is_busy"] is True
    assert await late.workspace.grant(request) is True
    complete = await late.stream.run_complete(session, "parked")
    assert "error" not in complete
    assert (path / "made.txt").read_text() == "once\n"
    assert roles_and_finishes(await late.workspace.messages(session)) == DONE


@pytest.mark.server_env(CRUSH_SERVER_DETACH_GRACE="0.1")
async def test_a_parked_run_returns_with_its_path_after_the_last_client_left(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(server), project("returns")
    seat = await take_seat(client, path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch made.txt"), "parked")
    request = await asked(seat, session)
    await seat.stream.abort()
    async with asyncio.timeout(60):
        while seat.workspace.id in [w["id"] for w in await client.workspaces()]:
            await asyncio.sleep(0.05)
    for call_of in (seat.workspace.agent(), seat.workspace.grant(request)):
        with pytest.raises(UnexpectedStatus) as refusal:
            await call_of
        assert refusal.value.status == 404
    again = await take_seat(client, path)
    assert await asked(again) == request
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
    request = await asked(seat, session)
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


async def test_many_clients_that_answer_at_once_agree_on_one(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("race"))
    for _ in range(10):
        session = await seat.workspace.session()
        await seat.workspace.prompt(session, bash("touch x"))
        request = await asked(seat, session)
        answers = ["allow", "deny", "allow_session"] * 5
        resolved = await asyncio.gather(*(seat.workspace.grant(request, a) for a in answers))
        assert resolved.count(True) == 1
        assert "error" not in await seat.stream.run_complete(session)
        told = [
            e.payload
            for e in seat.stream.of("permission_notification")
            if e.payload["tool_call_id"] == request["tool_call_id"]
            and (e.payload["granted"] or e.payload["denied"])
        ]
        assert len(told) == 1
        assert told[0]["denied"] is (answers[resolved.index(True)] == "deny")


async def test_a_native_client_that_attaches_late_finds_the_request_and_answers_it(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("late")
    client = connect(shared_server)
    seat = await take_seat(client, path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("touch late.txt"), "late")
    request = await asked(seat, session)

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
