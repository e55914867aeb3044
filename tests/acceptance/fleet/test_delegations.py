"""Sub-agents through a running server: words, questions, steering, limits, cancels and deaths."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import agents, eventually, permission_request, results, until
from tests.acceptance.conversation import Seat, roles_and_finishes, take_seat, text_of
from tests.acceptance.fleet.children import listed, lives, processes_below
from tests.acceptance.fleet.delegating import children, idle, run
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

ROLE: dict[str, Any] = {"executor": "script", "description": "Does what its words say."}


@pytest.fixture
def fleet(project: MakeProject) -> Callable[..., Path]:
    """Like the package's fixture of this name, for a role that runs scripts."""

    def make(name: str, **role: Any) -> Path:
        return project(name, fleet={"scripted": ROLE | role}, tools={"agent": {"role": "scripted"}})

    return make


async def test_its_words_stream_into_a_child_session_and_become_the_calls_result(
    shared_server: Server, connect: Connect, fleet: Callable[..., Path]
) -> None:
    seat = await take_seat(connect(shared_server), fleet("words"))
    session = await seat.workspace.session()

    (result,) = await run(seat, session, "alpha beta")

    assert not result["is_error"]
    assert result["content"] == "echo: alpha beta"
    (child,) = await children(seat, session)
    messages = await seat.workspace.messages(child["id"])
    assert roles_and_finishes(messages) == [("user", "stop"), ("assistant", "end_turn")]
    assert text_of(messages[-1]) == "alpha beta "
    assert any(event.session == child["id"] for event in seat.stream.of("message"))
    assert [event.session for event in seat.stream.of("run_complete")] == [session]


@pytest.mark.parametrize("action", ["allow", "deny"])
async def test_its_permission_request_has_the_agents_path(
    shared_server: Server, connect: Connect, fleet: Callable[..., Path], action: str
) -> None:
    seat = await take_seat(connect(shared_server), fleet(f"asks-{action}"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("__approve:Write done"))

    request = await permission_request(seat)
    (child,) = await children(seat, session)
    assert request["session_id"] == child["id"]
    assert [step["session_id"] for step in request["agent_path"]] == [session, child["id"]]
    assert request["tool_name"] == "Write"
    assert await seat.workspace.grant(request, action) is True
    assert await seat.workspace.grant(request, action) is False
    await seat.stream.run_complete(session)

    (result,) = results(await seat.workspace.messages(session))
    assert f"approved={'true' if action == 'allow' else 'false'}" in result["content"]


async def test_a_prompt_to_its_session_steers_it(
    shared_server: Server, connect: Connect, fleet: Callable[..., Path]
) -> None:
    seat = await take_seat(connect(shared_server), fleet("steered"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("begin __await_steer"))
    begun = await seat.stream.wait_for(
        lambda e: e.type == "message" and e.session != session and "begin" in e.text
    )

    await seat.workspace.prompt(begun.session, "go left")
    await seat.stream.run_complete(session)

    (result,) = results(await seat.workspace.messages(session))
    assert "steer=[go left]" in result["content"]


async def test_a_failure_is_a_tool_error_with_the_text_so_far(
    shared_server: Server, connect: Connect, fleet: Callable[..., Path]
) -> None:
    seat = await take_seat(connect(shared_server), fleet("fails"))
    session = await seat.workspace.session()

    (result,) = await run(seat, session, "half __fail:boom")

    assert result["is_error"]
    assert "boom" in result["content"]
    assert "half" in result["content"]
    assert [e for e in seat.stream.of("agent_event") if e.payload["type"] == "error"] == []


async def test_a_sub_agent_that_exceeds_its_time_is_cancelled(
    shared_server: Server, connect: Connect, fleet: Callable[..., Path]
) -> None:
    path = fleet("slow", limits={"wall_clock": 4})
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()

    (result,) = await run(seat, session, "before __sleep_ms:60000")

    assert result["is_error"]
    assert "time" in result["content"]
    assert "before" in result["content"]


async def test_a_cancel_of_the_parent_reaches_every_sub_agent(
    shared_server: Server, connect: Connect, fleet: Callable[..., Path]
) -> None:
    seat = await take_seat(connect(shared_server), fleet("cascade"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("__stream:30000:10", "__stream:30000:10"))
    for _ in range(2):
        await eventually_two(seat, session)

    await seat.workspace.cancel(session)
    complete = await seat.stream.run_complete(session)

    assert complete["cancelled"] is True
    for child in await children(seat, session):
        await idle(seat, child["id"])
        messages = await seat.workspace.messages(child["id"])
        assert roles_and_finishes(messages)[-1] == ("assistant", "canceled")
        assert "tick" in text_of(messages[-1])  # what it had said is kept


async def test_a_killed_sub_agent_is_an_error_and_its_finished_siblings_result_is_kept(
    embedded_server: Server, connect: Connect, fleet: Callable[..., Path]
) -> None:
    seat = await take_seat(connect(embedded_server), fleet("killed"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("kept", "first __stream:30000:10"))
    doomed = await seat.stream.wait_for(
        lambda e: e.type == "message" and e.session != session and "tick" in e.text
    )
    finished = await seat.stream.wait_for(
        lambda e: e.type == "message" and "kept" in e.text and e.finish == "end_turn"
    )
    done = next(c for c in await children(seat, session) if c["id"] == finished.session)
    await idle(seat, done["id"])

    async def is_alone() -> dict[str, Any] | None:
        rows = await asyncio.to_thread(listed, embedded_server)
        return rows[0] if [row["session_id"] for row in rows] == [doomed.session] else None

    row = await until(is_alone, "only the other one is at work")
    os.kill(row["pid"], signal.SIGKILL)
    await seat.stream.run_complete(session, timeout=60)

    given = {r["tool_call_id"]: r for r in results(await seat.workspace.messages(session))}
    kept, lost = (given[c["id"].partition("$$")[2]] for c in (done, {"id": doomed.session}))
    assert kept["content"] == "echo: kept"
    assert lost["is_error"]
    assert "tick" in lost["content"]


@pytest.mark.server_env(CRUSH_DRAIN="1")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
async def test_no_sub_agent_outlives_its_server(
    embedded_server: Server, connect: Connect, fleet: Callable[..., Path], how: str
) -> None:
    path = fleet("orphan")
    seat = await take_seat(connect(embedded_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("__stream:30000:10"), run_id="one")
    await seat.stream.wait_for(lambda e: e.type == "message" and "tick" in e.text)
    born = await asyncio.to_thread(processes_below, embedded_server)
    assert born

    end = embedded_server.kill9 if how == "SIGKILL" else embedded_server.stop
    await asyncio.to_thread(end)
    await eventually(lambda: not any(lives(process) for process in born), "they have ended")

    await asyncio.to_thread(embedded_server.restart)
    back = await take_seat(connect(embedded_server), path)
    await idle(back, session)
    (result,) = results(await back.workspace.messages(session))
    assert result["is_error"]
    assert "the outcome is unknown" in result["content"]


async def test_no_sub_agent_outlives_its_workspace(
    embedded_server: Server, connect: Connect, fleet: Callable[..., Path]
) -> None:
    seat = await take_seat(connect(embedded_server), fleet("closed"))
    session = await seat.workspace.session()
    await run(seat, session, "warm")
    born = await asyncio.to_thread(processes_below, embedded_server)
    assert born  # it waits for the next assignment

    await seat.workspace.release()

    await eventually(lambda: not any(lives(process) for process in born), "they have ended")


async def test_an_operator_lists_sub_agents_and_stops_one(
    embedded_server: Server, connect: Connect, fleet: Callable[..., Path]
) -> None:
    seat = await take_seat(connect(embedded_server), fleet("operated"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("__stream:30000:10"))
    await seat.stream.wait_for(lambda e: e.type == "message" and "tick" in e.text)
    (child,) = await children(seat, session)

    async with asyncio.timeout(60):
        while True:
            (row,) = await asyncio.to_thread(listed, embedded_server)
            if row["last_event"]:
                break
    assert (row["role"], row["state"], row["last_event"]) == ("scripted", "running", "token")
    assert (row["session_id"], row["parent_session_id"]) == (child["id"], session)
    stopped = await asyncio.to_thread(
        command, embedded_server.env, "fleet", "--stop", row["id"][:12]
    )
    assert stopped.code == 0, stopped.err
    await seat.stream.run_complete(session)

    (result,) = results(await seat.workspace.messages(session))
    assert result["is_error"]
    assert "cancelled" in result["content"]
    await eventually(lambda: listed(embedded_server) == [], "none is at work")
    (row,) = await asyncio.to_thread(listed, embedded_server, "--all")
    assert row["ending"] == "cancelled"


async def test_an_unknown_role_is_reported_to_the_model(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("unknown-role", tools={"agent": {"role": "nobody"}})
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()

    (result,) = await run(seat, session, "anything")

    assert result["is_error"]
    assert "nobody" in result["content"]


async def test_our_own_turn_runs_in_a_process_of_its_own(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("own", fleet={"worker": {}}, tools={"agent": {"role": "worker"}})
    (path / "a.txt").write_text("the contents\n")
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()

    look = '[[tool=view {"file_path": "a.txt"}]] [[n=4 id=own]]'
    (result,) = await run(seat, session, look)

    assert not result["is_error"], result
    assert "own-0" in result["content"]
    # Its own calls are drawn in its session, with what came of them.
    (child,) = await children(seat, session)
    shown = await seat.workspace.messages(child["id"])
    made = [part["data"] for part in shown[1]["parts"] if part["type"] == "tool_call"]
    assert [(call["name"], call["finished"]) for call in made] == [("view", True)]
    (seen,) = results(shown)
    assert seen["tool_call_id"] == made[0]["id"]
    assert "the contents" in seen["content"]


async def eventually_two(seat: Seat, session: str) -> None:
    """Until both sub-agents have said something."""
    async with asyncio.timeout(60):
        while True:
            speaking = {
                event.session
                for event in seat.stream.of("message")
                if event.session != session and "tick" in event.text
            }
            if len(speaking) == 2:
                return
            await asyncio.sleep(0.02)
