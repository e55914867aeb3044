"""`kill -9` at chosen points of a run: what is done stays done, and the rest goes on."""

import asyncio
import json
from pathlib import Path

import pytest

from agents.runs.messages import MOST_LOST_WORKERS
from tests.acceptance.calling import eventually, until
from tests.acceptance.conversation import roles_and_finishes, take_seat, text_of
from tests.acceptance.crash.gates import Gates
from tests.acceptance.crash.ground import (
    Connect,
    MakeProject,
    bash,
    log_of,
    stored_outputs,
    wait_for_ends,
)
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server


async def die(server: Server) -> None:
    await asyncio.to_thread(server.kill9)


async def test_a_run_between_two_steps_continues_and_repeats_nothing(
    gated_server: Server, gates: Gates, connect: Connect, project: MakeProject
) -> None:
    path = project()
    seat = await take_seat(connect(gated_server), path, yolo=True)
    calls = f"[[calls={bash('echo a >> marks')} ;; {bash('echo b >> marks')}]] [[n=3]]"
    waits = {"run.begun": [], "reply.saved": [], "result.saved": ["a"]}
    session_of_gate = {}
    for gate in waits:
        session_of_gate[gate] = await seat.workspace.session()
    done: list[str] = []
    for gate, session in session_of_gate.items():
        gates.hold(gate)
        await seat.workspace.prompt(session, calls, gate)
        await gates.reached(gate)
        marks = path / "marks"
        assert (marks.read_text().split() if marks.exists() else []) == done + waits[gate]
        await die(gated_server)
        gates.open(gate)
        await asyncio.to_thread(gated_server.start)
        seat = await take_seat(
            connect(gated_server), path, yolo=True, client_id=seat.workspace.client_id
        )
        fold = await wait_for_ends(connect(gated_server), seat.workspace, len(done) // 2 + 1)
        done += ["a", "b"]
        assert marks.read_text().split() == done
        assert [run["outcome"] for run in fold.ends] == ["completed"] * (len(done) // 2)
        assert roles_and_finishes(await seat.workspace.messages(session)) == [
            ("user", "stop"),
            ("assistant", "tool_use"),
            ("tool", "stop"),
            ("tool", "stop"),
            ("assistant", "end_turn"),
        ]


@pytest.mark.parametrize("answered", ["before", "after"])
async def test_a_run_killed_before_it_parks_sends_one_request_and_uses_one_answer(
    gated_server: Server, gates: Gates, connect: Connect, project: MakeProject, answered: str
) -> None:
    """Its question is stored and its run is not parked yet; the answer comes on either side."""
    path = project()
    seat = await take_seat(connect(gated_server), path)
    session = await seat.workspace.session()
    gates.hold("run.parking")
    await seat.workspace.prompt(session, f"[[tool={bash('echo a >> marks')}]] [[n=3]]", "asks")
    await gates.reached("run.parking")
    permission = (await seat.stream.wait_for(lambda e: e.type == "permission_request")).payload
    if answered == "before":
        assert await seat.workspace.grant(permission) is True
    await die(gated_server)
    # A close like any other, and not a cut chunk: terminal clients reconnect after this alone.
    assert await seat.stream.wait_end() == "end of stream"
    gates.open("run.parking")
    await asyncio.to_thread(gated_server.start)
    again = await take_seat(connect(gated_server), path, client_id=seat.workspace.client_id)
    if answered == "after":
        shown = await again.stream.wait_for(lambda e: e.type == "permission_request")
        assert shown.payload == permission
        assert await again.workspace.grant(permission) is True
    assert await again.workspace.grant(permission) is False
    fold = await wait_for_ends(connect(gated_server), again.workspace, 1)
    assert fold.kinds["permission.requested"] == fold.kinds["permission.resolved"] == 1
    assert [run["outcome"] for run in fold.ends] == ["completed"]
    assert (path / "marks").read_text().split() == ["a"]


async def test_an_answer_just_before_parking_keeps_the_other_calls_result(
    gated_server: Server,
    gates: Gates,
    connect: Connect,
    project: MakeProject,
    tmp_path: Path,
) -> None:
    """Of two calls side by side one is asked for; the other ends, and the run wants to park."""
    (tmp_path / "outside.txt").write_text("from outside\n")
    path = project()
    (path / "inside.txt").write_text("from inside\n")
    seat = await take_seat(connect(gated_server), path)
    session = await seat.workspace.session()
    gates.hold("run.parking")
    calls = " ;; ".join(
        f"view {json.dumps({'file_path': str(file)})}"
        for file in (tmp_path / "outside.txt", path / "inside.txt")
    )
    await seat.workspace.prompt(session, f"[[calls={calls}]] [[n=3]]")
    await gates.reached("run.parking")
    permission = (await seat.stream.wait_for(lambda e: e.type == "permission_request")).payload
    assert await seat.workspace.grant(permission) is True
    gates.open("run.parking")
    await seat.stream.run_complete(session)
    given = [
        part["data"]
        for message in await seat.workspace.messages(session)
        for part in message["parts"]
        if part["type"] == "tool_result"
    ]
    assert sorted("from inside" in result["content"] for result in given) == [False, True]
    assert all("from" in result["content"] for result in given)
    assert len({result["tool_call_id"] for result in given}) == len(given) == 2


@pytest.mark.parametrize("action", ["allow", "deny"])
async def test_a_parked_runs_request_survives_a_crash(
    gated_server: Server, connect: Connect, project: MakeProject, action: str
) -> None:
    path = project()
    seat = await take_seat(connect(gated_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, f"[[tool={bash('echo a >> marks')}]] [[n=3]]", "asks")
    permission = (await seat.stream.wait_for(lambda e: e.type == "permission_request")).payload
    await seat.workspace.prompt(session, "[[n=3]]", "queued")
    async with asyncio.timeout(60):
        while not (await log_of(connect(gated_server), seat.workspace)).kinds["run.parked"]:
            await asyncio.sleep(0.02)
    await die(gated_server)
    await asyncio.to_thread(gated_server.start)
    again = await take_seat(connect(gated_server), path, client_id=seat.workspace.client_id)
    shown = await again.stream.wait_for(lambda e: e.type == "permission_request")
    assert shown.payload == permission
    assert (await again.workspace.get_session(session))["is_busy"] is True
    assert await again.workspace.queue(session) == ["[[n=3]]"]
    assert await again.workspace.grant(permission, action) is True
    fold = await wait_for_ends(connect(gated_server), again.workspace, 2)
    assert [run["run_id"] for run in fold.ends] == ["asks", "queued"]
    assert [run["outcome"] for run in fold.ends] == ["completed", "completed"]
    marks = path / "marks"
    assert (marks.read_text().split() if marks.exists() else []) == ["a"] * (action == "allow")


async def test_a_run_killed_inside_a_tool_continues_without_repeating_it(
    gated_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project()
    seat = await take_seat(connect(gated_server), path, yolo=True)
    session = await seat.workspace.session()
    slow = "echo $$ | tee -a marks; sleep 300"
    await seat.workspace.prompt(session, f"[[tool={bash(slow)}]] [[n=3]]", "cut")
    await seat.workspace.prompt(session, "[[n=4]]", "next")
    marks = path / "marks"
    await eventually(lambda: stored_outputs(gated_server) != [], "its output is stored")
    await die(gated_server)
    await asyncio.to_thread(gated_server.start)
    again = await take_seat(connect(gated_server), path, client_id=seat.workspace.client_id)
    fold = await wait_for_ends(connect(gated_server), again.workspace, 2)
    cut, following = fold.ends
    assert (cut["run_id"], cut["outcome"]) == ("cut", "completed")
    assert (following["run_id"], following["outcome"]) == ("next", "completed")
    messages = await again.workspace.messages(session)
    assert roles_and_finishes(messages) == [
        ("user", "stop"),
        ("assistant", "tool_use"),
        ("tool", "stop"),
        ("assistant", "end_turn"),
        ("user", "stop"),
        ("assistant", "end_turn"),
    ]
    (result,) = [p["data"] for p in messages[2]["parts"] if p["type"] == "tool_result"]
    assert result["is_error"] is True
    (pid,) = marks.read_text().split()  # it ran once
    assert result["content"].startswith("The outcome of this call is unknown")
    assert result["content"].endswith(f"Its output until then:\n{pid}\n")
    async with asyncio.timeout(60):
        while Path(f"/proc/{pid}").exists():  # and died with its server
            await asyncio.sleep(0.05)


async def test_a_run_killed_inside_a_stream_requests_its_reply_again(
    gated_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path, gate = project(), model.new_gate()
    seat = await take_seat(connect(gated_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, f"[[n=80 gate={gate} hold=60]]", "cut")
    seen = await seat.stream.words(session, 60)

    async def is_stored() -> bool:
        return text_of((await seat.workspace.messages(session))[-1]).startswith(seen.text)

    await until(is_stored, "what was shown is stored")
    (cut,) = [m for m in await seat.workspace.messages(session) if m["role"] == "assistant"]
    await die(gated_server)
    model.open_gate(gate)
    await asyncio.to_thread(gated_server.start)
    again = await take_seat(connect(gated_server), path, client_id=seat.workspace.client_id)
    fold = await wait_for_ends(connect(gated_server), again.workspace, 1)
    assert [run["outcome"] for run in fold.ends] == ["completed"]
    assert fold.kinds["message.started"] == fold.kinds["message.restarted"] == 1
    messages = await again.workspace.messages(session)
    assert roles_and_finishes(messages) == [("user", "stop"), ("assistant", "end_turn")]
    assert fold.ends[0]["message_id"] == messages[1]["id"] == cut["id"]
    # The reply of the second request alone: no word of the first one is doubled.
    whole = text_of(messages[1])
    assert whole.startswith(seen.text)
    assert len(whole.split()) == 80
    await again.workspace.prompt(session, "[[n=3]]", "after")
    assert "error" not in await again.stream.run_complete(session, "after")


async def test_a_run_whose_servers_keep_dying_ends(
    gated_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    path, gate = project(), model.new_gate()
    seat = await take_seat(connect(gated_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, f"[[n=80 gate={gate} hold=20]]", "cut")
    for _ in range(MOST_LOST_WORKERS):
        await model.wait_at_gate(gate)
        await die(gated_server)
        await eventually(lambda: model.waiting_at(gate) == 0, "the request is gone")
        await asyncio.to_thread(gated_server.start)
    again = await take_seat(connect(gated_server), path, client_id=seat.workspace.client_id)
    (ended,) = (await wait_for_ends(connect(gated_server), again.workspace, 1)).ends
    assert (ended["run_id"], ended["outcome"]) == ("cut", "interrupted")
    assert "stopped 5 times" in ended["error"]
    messages = await again.workspace.messages(session)
    assert roles_and_finishes(messages) == [("user", "stop"), ("assistant", "error")]
    model.open_gate(gate)
    await again.workspace.prompt(session, "[[n=3]]", "after")
    assert "error" not in await again.stream.run_complete(session, "after")
