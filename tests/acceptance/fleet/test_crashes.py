"""What becomes of sub-agents when their server or their worker dies or stalls."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.acceptance.calling import agents, permission_request, results
from tests.acceptance.conversation import take_seat
from tests.acceptance.crash.ground import log_of
from tests.acceptance.fleet.children import (
    OWN,
    all_end,
    listed,
    lives,
    served_child,
)
from tests.acceptance.fleet.delegating import are_listed, idle
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
Fleet = Callable[..., Path]
pytestmark = pytest.mark.timeout(900)  # sub-agents of sub-agents are processes that start in turn


async def test_after_a_crash_no_sub_agent_is_listed_as_running(
    embedded_server: Server, connect: Connect, fleet: Fleet
) -> None:
    path = fleet("crash", executor="script")
    seat = await take_seat(connect(embedded_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("__stream:30000:10", "__approve:Write"), run_id="1")
    await seat.stream.wait_for(lambda e: e.type == "message" and "tick" in e.text)
    await permission_request(seat)
    await are_listed(embedded_server, ["running", "waiting"])

    await asyncio.to_thread(embedded_server.kill9)
    await are_listed(embedded_server, ["lost", "lost"])

    await asyncio.to_thread(embedded_server.restart)
    back = await take_seat(connect(embedded_server), path)
    await idle(back, session)
    await are_listed(embedded_server, [])
    rows = await asyncio.to_thread(listed, embedded_server, "--all")
    assert [(row["state"], row["ending"]) for row in rows] == [("ended", "lost")] * 2


@pytest.mark.server_env(CRUSH_LEASE="6", CRUSH_POLL="0.2")
@pytest.mark.server_workers(2)
async def test_a_worker_that_dies_ends_its_sub_agents_and_another_settles_them(
    scaled_server: Server, connect: Connect, fleet: Fleet
) -> None:
    seat = await take_seat(connect(scaled_server), fleet("worker", executor="script"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("said __stream:30000:10"))
    await seat.stream.wait_for(lambda e: e.type == "message" and "tick" in e.text)
    (row,) = await asyncio.to_thread(listed, scaled_server)
    child = psutil.Process(row["pid"])
    worker = next(p for p in child.parents() if "runworker" in p.cmdline())

    os.kill(worker.pid, signal.SIGKILL)
    died = time.monotonic()
    await seat.stream.run_complete(session, timeout=240)

    assert time.monotonic() - died < 40  # after the run's lease, not after the sub-agent's minute
    await all_end([child])
    (result,) = results(await seat.workspace.messages(session))
    assert result["is_error"]
    assert "the outcome is unknown" in result["content"]
    assert "tick" in result["content"]
    (row,) = await asyncio.to_thread(listed, scaled_server, "--all")
    assert (row["state"], row["ending"]) == ("ended", "lost")
    for process in scaled_server.processes("worker"):
        if process.pid == worker.pid:
            process.kill9()  # so that the server's end does not ask it


@pytest.mark.server_env(CRUSH_LEASE="6", CRUSH_POLL="0.2")
@pytest.mark.server_workers(2)
async def test_a_worker_that_loses_its_lease_ends_its_sub_agent(
    scaled_server: Server, connect: Connect, fleet: Fleet
) -> None:
    seat = await take_seat(connect(scaled_server), fleet("slept", executor="script"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("said __stream:30000:10"))
    await seat.stream.wait_for(lambda e: e.type == "message" and "tick" in e.text)
    (row,) = await asyncio.to_thread(listed, scaled_server)
    child = psutil.Process(row["pid"])
    worker = next(p for p in child.parents() if "runworker" in p.cmdline())

    worker.suspend()
    try:
        await seat.stream.run_complete(session, timeout=240)  # the other one has settled it
        assert lives(child)
    finally:
        worker.resume()
    await all_end([child])

    (result,) = results(await seat.workspace.messages(session))
    assert "the outcome is unknown" in result["content"]
    (ended,) = await asyncio.to_thread(listed, scaled_server, "--all")
    assert ended["ending"] == "lost"


async def test_a_sub_agent_that_was_not_reached_before_a_crash_gets_its_assignment_once(
    embedded_server: Server, connect: Connect, fleet: Fleet, tmp_path: Path
) -> None:
    fabric = tmp_path / "fabric"
    with served_child(fabric, command=OWN) as endpoint:
        child = psutil.Process(json.loads((fabric / "theirs.json").read_text())["pid"])
        path = fleet("unreached", endpoint=endpoint)
        seat = await take_seat(connect(embedded_server), path)
        session = await seat.workspace.session()
        child.suspend()  # connections wait for their handshake
        try:
            await seat.workspace.prompt(session, agents("said __stats"), run_id="1")
            await are_listed(embedded_server, ["starting"])
            await asyncio.to_thread(embedded_server.kill9)
        finally:
            child.resume()
        await asyncio.to_thread(embedded_server.restart)
        back = await take_seat(connect(embedded_server), path)
        await idle(back, session)

    (result,) = results(await back.workspace.messages(session))
    assert result["content"].startswith("echo: said stats: started=1 ")
    rows = await asyncio.to_thread(listed, embedded_server, "--all")
    assert [(row["state"], row["ending"]) for row in rows] == [("ended", "completed")]
    fold = await log_of(connect(embedded_server), back.workspace)
    assert [run["outcome"] for run in fold.ends] == ["completed", "completed"]


async def test_each_of_two_sub_agents_receives_its_answer_from_another_process(
    scaled_server: Server, connect: Connect, fleet: Fleet
) -> None:
    seat = await take_seat(connect(scaled_server), fleet("answers", executor="script"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("__approve:Write one", "__approve:Read two"))
    seen = set()
    for _ in range(2):
        request = await seat.stream.wait_for(
            lambda e: e.type == "permission_request" and e.session not in seen
        )
        seen.add(request.session)
        action = "allow" if request.payload["tool_name"] == "Write" else "deny"
        assert await seat.workspace.grant(request.payload, action) is True
    await seat.stream.run_complete(session)

    given = {result["content"] for result in results(await seat.workspace.messages(session))}
    assert given == {"echo: approved=true one", "echo: approved=false two"}
