"""Several sub-agents at work at once, and sub-agents of sub-agents."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.acceptance.calling import agents, bash, eventually, permission_request, results
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.fleet.children import (
    all_end,
    processes_below,
)
from tests.acceptance.fleet.delegating import children
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
Fleet = Callable[..., Path]
pytestmark = pytest.mark.timeout(900)  # sub-agents of sub-agents are processes that start in turn


async def test_several_run_at_the_same_time_each_in_its_own_session(
    shared_server: Server, connect: Connect, fleet: Fleet
) -> None:
    seat = await take_seat(connect(shared_server), fleet("several", executor="script"))
    session = await seat.workspace.session()

    # Each waits for a word: they end only if all of them are at work at once.
    names = [f"number{n}" for n in range(4)]
    await seat.workspace.prompt(session, agents(*(f"{name} __await_steer" for name in names)))
    async with asyncio.timeout(60):
        while len(_sessions_with_text(seat, session)) < len(names):
            await asyncio.sleep(0.05)
    for child in await children(seat, session):
        await seat.workspace.prompt(child["id"], "on")
    await seat.stream.run_complete(session, timeout=240)

    given = results(await seat.workspace.messages(session))
    contents = {result["content"] for result in given}
    assert contents == {f"echo: {name} steer=[on]" for name in names}


def _sessions_with_text(seat: Seat, session: str) -> set[str]:
    replies = (event for event in seat.stream.of("message") if event.payload["role"] == "assistant")
    return {
        event.session for event in replies if event.session != session and "number" in event.text
    }


def nested(command: str, levels: int) -> str:
    """A prompt whose agents' agents, and so on, call bash."""
    prompt = bash(command)
    for _ in range(levels):
        prompt = agents(prompt)
    return prompt


async def test_sub_agents_have_sub_agents_to_the_configured_depth_only(
    embedded_server: Server, connect: Connect, fleet: Fleet
) -> None:
    path = fleet("nested", depth=2)
    seat = await take_seat(connect(embedded_server), path, yolo=True)
    session = await seat.workspace.session()

    for touched, levels, is_made in (("at-2", 2, True), ("at-3", 3, False)):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, nested(f"touch {touched}", levels))
        complete = await seat.stream.run_complete(session, timeout=240, start=start)
        result = results(await seat.workspace.messages(session))[-1]
        assert "error" not in complete
        assert not result["is_error"], result
        assert (path / touched).exists() is is_made


async def test_a_request_and_its_answer_pass_through_every_depth(
    embedded_server: Server, connect: Connect, fleet: Fleet
) -> None:
    path = fleet("asks-below", depth=2)
    seat = await take_seat(connect(embedded_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, nested("touch allowed", 2))

    request = await permission_request(seat)
    (child,) = await children(seat, session)
    assert request["session_id"] == child["id"]
    assert [step["session_id"] for step in request["agent_path"]] == [session, child["id"]]
    assert not (path / "allowed").exists()
    assert await seat.workspace.grant(request) is True
    await seat.stream.run_complete(session, timeout=240)
    assert (path / "allowed").exists()


@pytest.mark.parametrize("end", ["cancel", "crash", "release"])
async def test_when_the_first_ends_all_below_it_end(
    embedded_server: Server, connect: Connect, fleet: Fleet, end: str
) -> None:
    path = fleet(f"ends-{end}", depth=2)
    seat = await take_seat(connect(embedded_server), path, yolo=True)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, nested("echo $$ > pid; sleep 600", 2))
    file = path / "pid"
    await eventually(lambda: file.exists() and bool(file.read_text().strip()), "it works", 240)
    tool = psutil.Process(int(file.read_text()))
    born = await asyncio.to_thread(processes_below, embedded_server)
    assert len(born) == 2

    if end == "cancel":
        await seat.workspace.cancel(session)
        assert (await seat.stream.run_complete(session))["cancelled"] is True
        await all_end([tool])
    elif end == "crash":
        await asyncio.to_thread(embedded_server.kill9)
        await all_end([tool, *born])
    else:
        await seat.workspace.cancel(session)
        await seat.workspace.release()
        await all_end([tool, *born])
