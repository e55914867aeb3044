"""Sub-agents that idle, stop, break the protocol or exceed a limit."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import agents, results
from tests.acceptance.conversation import roles_and_finishes, take_seat
from tests.acceptance.fleet.children import (
    all_end,
    processes_below,
    served_child,
)
from tests.acceptance.fleet.delegating import are_listed, children, idle, run
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
Fleet = Callable[..., Path]
SECOND = 1000
pytestmark = pytest.mark.timeout(900)  # sub-agents of sub-agents are processes that start in turn


async def test_an_idle_sub_agent_is_stopped(
    shared_server: Server, connect: Connect, fleet: Fleet
) -> None:
    path = fleet("idles", executor="script", limits={"idle": 4})
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()

    (result,) = await run(seat, session, f"begun __sleep_ms:{60 * SECOND}")

    assert result["is_error"]
    assert "sent nothing" in result["content"]
    assert "begun" in result["content"]


async def test_a_sub_agent_that_a_signal_stops_is_abandoned_and_killed(
    embedded_server: Server, connect: Connect, fleet: Fleet
) -> None:
    path = fleet("deaf", executor="script", limits={"idle": 4})
    seat = await take_seat(connect(embedded_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("said __stream:30000:10"))
    await seat.stream.wait_for(lambda e: e.type == "message" and "tick" in e.text)
    (child,) = await asyncio.to_thread(processes_below, embedded_server)

    child.send_signal(signal.SIGSTOP)
    await seat.stream.run_complete(session, timeout=240)

    (result,) = results(await seat.workspace.messages(session))
    assert result["is_error"]
    assert "said tick0" in result["content"]
    await all_end([child])
    await are_listed(embedded_server, [])


@pytest.mark.parametrize(
    ("assignment", "reason", "text"),
    [
        ("before __steps:50 __sleep_ms:30000", "step limit", "before"),
        ("before __drop", "connection", "before"),
        ("before __suspend", "does not support", "before"),
        ("before __panic", "sent nothing", "before"),
        ("before __text:nonsense __fail:boom", "boom", "before"),
        ("before __die:3", "connection", "before"),
    ],
)
async def test_a_call_to_a_failing_foreign_sub_agent_ends_with_the_text_so_far(
    shared_server: Server,
    connect: Connect,
    fleet: Fleet,
    tmp_path: Path,
    assignment: str,
    reason: str,
    text: str,
) -> None:
    with served_child(tmp_path / "fabric") as endpoint:
        path = fleet("foreign", endpoint=endpoint, limits={"steps": 5, "idle": 4})
        seat = await take_seat(connect(shared_server), path)
        session = await seat.workspace.session()

        (result,) = await run(seat, session, assignment)

    assert result["is_error"]
    assert reason in result["content"]
    assert text in result["content"]
    (child,) = await children(seat, session)
    await idle(seat, child["id"])
    assert roles_and_finishes(await seat.workspace.messages(child["id"]))[-1][1] == "error"


async def test_output_above_the_size_of_a_message_ends_it(
    embedded_server: Server, connect: Connect, fleet: Fleet, tmp_path: Path
) -> None:
    with served_child(tmp_path / "fabric") as endpoint:
        seat = await take_seat(connect(embedded_server), fleet("floods", endpoint=endpoint))
        session = await seat.workspace.session()
        two = " ".join(["__big:2000000"] * 6)

        (result,) = await run(seat, session, f"{two} __sleep_ms:{60 * SECOND}")

    assert result["is_error"]
    assert "larger than a message may be" in result["content"]
    assert len(result["content"]) < 250_000


async def test_our_own_turn_keeps_to_its_budget_of_steps(
    shared_server: Server, connect: Connect, fleet: Fleet
) -> None:
    seat = await take_seat(connect(shared_server), fleet("budget", limits={"steps": 2}))
    session = await seat.workspace.session()

    (result,) = await run(seat, session, '[[tools=9 ls {"path": "."}]] [[n=3 id=over]]')

    assert result["is_error"]
    assert "over-" not in result["content"]
