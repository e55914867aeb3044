"""Agents that a tool call sends for: child sessions, their cost, their cancel, their questions."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import agents, eventually, permission_request, results, until
from tests.acceptance.conversation import Seat, roles_and_finishes, take_seat, text_of
from tests.acceptance.crash.ground import log_of
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


async def children(seat: Seat, session: str) -> list[dict[str, Any]]:
    return list(await seat.workspace.call("GET", f"/sessions/{session}/children"))


async def test_an_agent_runs_in_a_child_session_and_returns_its_last_text(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("agent")
    (path / "a.txt").write_text("one\n")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()

    await seat.workspace.prompt(session, agents('[[tool=ls {"path": "."}]] [[n=4 id=child]]'))
    complete = await seat.stream.run_complete(session)

    assert "error" not in complete
    (child,) = await children(seat, session)
    messages = await seat.workspace.messages(session)
    (result,) = results(messages)
    assert child["id"] == f"{messages[1]['id']}$${result['tool_call_id']}"
    assert child["parent_session_id"] == session
    own = await seat.workspace.messages(child["id"])
    assert roles_and_finishes(own) == [
        ("user", "stop"),
        ("assistant", "tool_use"),
        ("tool", "stop"),
        ("assistant", "end_turn"),
    ]
    assert result["content"] == text_of(own[-1])
    assert not result["is_error"]
    # Its words streamed to clients as its own session's, and no run of it was announced.
    assert any(event.session == child["id"] for event in seat.stream.of("message"))
    assert [event.session for event in seat.stream.of("run_complete")] == [session]
    assert [event.session for event in seat.stream.of("agent_event")] == [session]


async def test_agents_of_one_reply_run_at_the_same_time(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project("side-by-side"))
    session = await seat.workspace.session()
    gates = [model.new_gate() for _ in range(3)]

    await seat.workspace.prompt(session, agents(*(f"[[gate={gate} n=2]]" for gate in gates)))
    for gate in gates:
        await model.wait_at_gate(gate)  # all three are held at once
    for gate in reversed(gates):
        model.open_gate(gate)
    await seat.stream.run_complete(session)

    given = results(await seat.workspace.messages(session))
    assert [result["is_error"] for result in given] == [False, False, False]
    assert len({result["tool_call_id"] for result in given}) == 3


async def test_its_cost_is_added_to_the_parent(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("cost")
    priced = json.loads((path / "crush.json").read_text())
    for model in priced["providers"]["fake"]["models"]:
        model |= {"cost_per_1m_in": 1, "cost_per_1m_out": 10}
    (path / "crush.json").write_text(json.dumps(priced))
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()

    await seat.workspace.prompt(session, agents("[[n=2 usage=50000,1000,0]]"))
    await seat.stream.run_complete(session)

    (child,) = await children(seat, session)
    parent = await seat.workspace.get_session(session)
    assert child["cost"] == pytest.approx(0.05 + 0.01)
    assert parent["cost"] > child["cost"]
    # Tokens are those of the conversation itself.
    assert parent["prompt_tokens"] < child["prompt_tokens"]


async def test_a_cancel_of_the_parent_cancels_the_agents(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project("cascade"))
    session = await seat.workspace.session()
    gate = model.new_gate()
    await seat.workspace.prompt(
        session, agents(f"[[gate={gate}]]", "[[n=20000 d=20]]"), run_id="one"
    )
    await model.wait_at_gate(gate)

    await seat.workspace.cancel(session)
    complete = await seat.stream.run_complete(session)

    assert complete["cancelled"] is True
    assert "error" not in complete
    for child in await children(seat, session):
        await _idle(seat, child["id"])
        assert roles_and_finishes(await seat.workspace.messages(child["id"])) == [
            ("user", "stop"),
            ("assistant", "canceled"),
        ]
    given = results(await seat.workspace.messages(session))
    assert [result["is_error"] for result in given] == [True, True]
    assert [e for e in seat.stream.of("agent_event") if e.payload["type"] == "error"] == []


async def test_a_cancelled_agent_is_an_error_to_its_parent_which_continues(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project("child-cancelled"))
    session = await seat.workspace.session()
    gate = model.new_gate()
    await seat.workspace.prompt(session, agents(f"[[gate={gate}]]"))
    await model.wait_at_gate(gate)
    (child,) = await children(seat, session)

    await seat.workspace.cancel(child["id"])
    complete = await seat.stream.run_complete(session)

    assert "cancelled" not in complete
    (result,) = results(await seat.workspace.messages(session))
    assert result["is_error"]
    assert "cancelled" in result["content"]


async def test_a_permission_request_of_an_agent_reaches_the_clients_with_its_path(
    shared_server: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("secret plan\n")
    seat = await take_seat(connect(shared_server), project("child-asks"))
    session = await seat.workspace.session()
    look = f"[[tool=view {json.dumps({'file_path': str(outside)})}]] [[n=2]]"

    await seat.workspace.prompt(session, agents(look))
    request = await permission_request(seat)
    (child,) = await children(seat, session)
    assert request["session_id"] == child["id"]
    assert request["path"] == str(outside)
    assert [step["session_id"] for step in request["agent_path"]] == [session, child["id"]]
    assert await seat.workspace.grant(request) is True
    await seat.stream.run_complete(session)

    assert "secret plan" in results(await seat.workspace.messages(child["id"]))[0]["content"]
    (result,) = results(await seat.workspace.messages(session))
    assert not result["is_error"]


async def test_a_denial_inside_it_ends_the_agent_and_not_its_parent(
    shared_server: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    (tmp_path / "no.txt").write_text("x\n")
    seat = await take_seat(connect(shared_server), project("child-denied"))
    session = await seat.workspace.session()
    look = f"[[tool=view {json.dumps({'file_path': str(tmp_path / 'no.txt')})}]] [[n=2]]"

    await seat.workspace.prompt(session, agents(look))
    await seat.workspace.grant(await permission_request(seat), "deny")
    await seat.stream.run_complete(session)

    messages = await seat.workspace.messages(session)
    (result,) = results(messages)
    assert result["is_error"]
    assert roles_and_finishes(messages)[-1] == ("assistant", "end_turn")
    assert text_of(messages[-1])


async def test_an_agent_has_only_tools_that_read(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("reads-only")
    seat = await take_seat(connect(shared_server), path, yolo=True)
    session = await seat.workspace.session()

    await seat.workspace.prompt(
        session, agents('[[tool=write {"file_path": "x.txt", "content": "x"}]] [[n=1]]')
    )
    await seat.stream.run_complete(session)

    (child,) = await children(seat, session)
    (refused,) = results(await seat.workspace.messages(child["id"]))
    assert refused["is_error"]
    assert "view" in refused["content"]
    assert not (path / "x.txt").exists()


@pytest.mark.server_env(CRUSH_LEASE="2", CRUSH_POLL="0.2")
async def test_agents_and_their_parent_continue_after_a_crash(
    server: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    """Killed while the child waits for an answer: both are parked, and both return."""
    outside = tmp_path / "kept.txt"
    outside.write_text("kept words\n")
    path = project("crash-child")
    seat = await take_seat(connect(server), path)
    session = await seat.workspace.session()
    look = f"[[tool=view {json.dumps({'file_path': str(outside)})}]] [[n=2]]"
    await seat.workspace.prompt(session, agents(look), run_id="kept")
    await permission_request(seat)

    async def are_parked() -> bool:
        return (await log_of(connect(server), seat.workspace)).kinds["run.parked"] == 2

    await until(are_parked, "both are parked")

    await asyncio.to_thread(server.kill9)
    await asyncio.to_thread(server.restart)
    back = await take_seat(connect(server), path)
    request = await permission_request(back)  # told again to whoever attaches
    assert await back.workspace.grant(request) is True
    complete = await back.stream.run_complete(session)

    assert complete["run_id"] == "kept"
    assert "error" not in complete
    (result,) = results(await back.workspace.messages(session))
    assert not result["is_error"]


async def test_deleting_a_session_deletes_its_agents_sessions(
    shared_server: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    seat = await take_seat(connect(shared_server), project("deleted-parent"))
    session = await seat.workspace.session()
    gate = model.new_gate()
    await seat.workspace.prompt(session, agents(f"[[gate={gate}]]"))
    await model.wait_at_gate(gate)
    (child,) = await children(seat, session)

    await seat.workspace.delete_session(session)

    deleted = {session, child["id"]}

    def all_deleted() -> bool:
        events = seat.stream.of("session")
        return deleted <= {e.payload["id"] for e in events if e.action == "deleted"}

    await eventually(all_deleted, "both sessions are gone")
    await seat.workspace.get_session(child["id"], expect=404)


async def _idle(seat: Seat, session: str) -> None:
    async with asyncio.timeout(60):
        while (await seat.workspace.agent_session(session))["is_busy"]:
            await asyncio.sleep(0.02)
