"""Sub-agents elsewhere, several, below each other, and at their limits, through a running server."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.calling import agents, asked, bash, eventually, results
from tests.acceptance.conversation import Seat, roles_and_finishes, take_seat
from tests.acceptance.fleet_children import (
    OWN,
    all_end,
    listed,
    lives,
    processes_below,
    served_child,
)
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server, Shape

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]
Fleet = Callable[..., Path]

TOKEN = "a-token-for-parents-1234567890"
SECOND = 1000

pytestmark = pytest.mark.timeout(900)  # sub-agents of sub-agents are processes that start in turn


@pytest.fixture
def fleet(project: MakeProject) -> Fleet:
    """`fleet("name", executor="script", ...)`: a project whose agents are of this role."""

    def make(name: str, **role: Any) -> Path:
        return project(name, fleet={"theirs": role}, tools={"agent": {"role": "theirs"}})

    return make


async def run(seat: Seat, session: str, *assignments: str) -> list[dict[str, Any]]:
    """What the calls that sent for these came to."""
    start = seat.stream.mark()
    await seat.workspace.prompt(session, agents(*assignments))
    complete = await seat.stream.run_complete(session, timeout=240, start=start)
    assert "error" not in complete, complete
    return results(await seat.workspace.messages(session))


async def children(seat: Seat, session: str) -> list[dict[str, Any]]:
    return list(await seat.workspace.call("GET", f"/sessions/{session}/children"))


async def idle(seat: Seat, session: str) -> None:
    async with asyncio.timeout(60):
        while (await seat.workspace.agent_session(session))["is_busy"]:
            await asyncio.sleep(0.02)


# -- elsewhere


@pytest.mark.server_env(CRUSH_FLEET_TOKEN=TOKEN, CRUSH_FLEET_EXECUTOR="script")
async def test_a_server_is_a_sub_agent_for_whoever_has_its_token(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    address = f"ws://127.0.0.1:{server.port}/fleet/child"
    roles = {
        "with": {"endpoint": address, "token": "$FLEET_TOKEN"},
        "wrong": {"endpoint": address, "token": "nothing-1234"},
        "without": {"endpoint": address},
    }
    answers = {}
    for role in roles:
        path = project(f"dials-{role}", fleet=roles, tools={"agent": {"role": role}})
        seat = await take_seat(connect(server), path, env=[f"FLEET_TOKEN={TOKEN}"])
        session = await seat.workspace.session()
        (answers[role],) = await run(seat, session, "far away")
        assert TOKEN not in str(await seat.workspace.config())

    assert answers["with"]["content"] == "echo: far away"
    for role in ("wrong", "without"):
        assert answers[role]["is_error"]
        assert "refused the token" in answers[role]["content"]
        assert "nothing-1234" not in answers[role]["content"]
    assert TOKEN not in server.log_text()


async def test_the_servers_own_turn_is_dialled_with_words_questions_and_a_cancel(
    make_a_server: MakeServer, connect: Connect, fleet: Fleet, project: MakeProject
) -> None:
    far = project("far")
    env = {"CRUSH_FLEET_TOKEN": TOKEN, "CRUSH_FLEET_WORKSPACE": str(far)}
    there, here = make_a_server(Shape.EMBEDDED, env=env), make_a_server(Shape.EMBEDDED)
    await asyncio.to_thread(there.start)
    await asyncio.to_thread(here.start)
    path = fleet("near", endpoint=f"ws://127.0.0.1:{there.port}/fleet/child", token=TOKEN)
    seat = await take_seat(connect(here), path)
    session = await seat.workspace.session()

    await seat.workspace.prompt(session, agents(bash("touch made-there")))
    request = await asked(seat)
    assert request["tool_name"] == "bash"
    assert not (far / "made-there").exists()
    assert await seat.workspace.grant(request) is True
    await seat.stream.run_complete(session)
    assert (far / "made-there").exists()

    watching = await take_seat(connect(there), far)
    await seat.workspace.prompt(session, agents("[[n=40000 d=10]]"))
    begun = await watching.stream.wait_for(lambda e: e.type == "message" and len(e.text) > 20)
    await seat.workspace.cancel(session)
    await idle(watching, begun.session)  # the other server's turn has ended with ours


@pytest.mark.parametrize("command", [OWN, None], ids=["own", "foreign"])
async def test_one_that_runs_already_is_found_by_its_role(
    embedded_server: Server, connect: Connect, fleet: Fleet, command: tuple[str, ...] | None
) -> None:
    seat = await take_seat(connect(embedded_server), fleet("finds", found_role="librarian"))
    session = await seat.workspace.session()
    (nobody,) = await run(seat, session, "anything")
    assert nobody["is_error"]
    assert "No living child" in nobody["content"]

    fabric = embedded_server.data_dir / "fabric"
    given = {} if command is None else {"command": command}
    with served_child(fabric, role="librarian", **given):
        for words in ("found once", "found twice"):
            found = (await run(seat, session, words))[-1]
            assert found["content"] == f"echo: {words}"
        assert not processes_below(embedded_server)


# -- several


async def test_several_work_side_by_side_each_in_a_session_of_its_own(
    shared_server: Server, connect: Connect, fleet: Fleet
) -> None:
    seat = await take_seat(connect(shared_server), fleet("several", executor="script"))
    session = await seat.workspace.session()

    # Each waits for a word: they end only if all of them are at work at once.
    names = [f"number{n}" for n in range(4)]
    await seat.workspace.prompt(session, agents(*(f"{name} __await_steer" for name in names)))
    async with asyncio.timeout(60):
        while len(_speaking(seat, session)) < len(names):
            await asyncio.sleep(0.05)
    for child in await children(seat, session):
        await seat.workspace.prompt(child["id"], "on")
    await seat.stream.run_complete(session, timeout=240)

    given = results(await seat.workspace.messages(session))
    said = {result["content"] for result in given}
    assert said == {f"echo: {name} steer=[on]" for name in names}


def _speaking(seat: Seat, session: str) -> set[str]:
    said = (event for event in seat.stream.of("message") if event.payload["role"] == "assistant")
    return {event.session for event in said if event.session != session and "number" in event.text}


# -- below each other


def nested(command: str, levels: int) -> str:
    """A prompt whose agents' agents, and so on, call bash."""
    prompt = bash(command)
    for _ in range(levels):
        prompt = agents(prompt)
    return prompt


async def test_they_may_have_their_own_to_the_stated_depth_and_no_deeper(
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


async def test_a_question_comes_up_and_its_answer_goes_down_through_every_depth(
    embedded_server: Server, connect: Connect, fleet: Fleet
) -> None:
    path = fleet("asks-below", depth=2)
    seat = await take_seat(connect(embedded_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, nested("touch allowed", 2))

    request = await asked(seat)
    (child,) = await children(seat, session)
    assert request["session_id"] == child["id"]
    assert [step["session_id"] for step in request["agent_path"]] == [session, child["id"]]
    assert not (path / "allowed").exists()
    assert await seat.workspace.grant(request) is True
    await seat.stream.run_complete(session, timeout=240)
    assert (path / "allowed").exists()


@pytest.mark.parametrize("end", ["cancel", "crash", "release"])
async def test_the_end_of_the_first_is_the_end_of_all_below_it(
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


# -- limits


async def test_one_that_shows_no_sign_of_work_is_stopped(
    shared_server: Server, connect: Connect, fleet: Fleet
) -> None:
    path = fleet("idles", executor="script", limits={"idle": 4})
    seat = await take_seat(connect(shared_server), path)
    session = await seat.workspace.session()

    (result,) = await run(seat, session, f"begun __sleep_ms:{60 * SECOND}")

    assert result["is_error"]
    assert "no sign of work" in result["content"]
    assert "begun" in result["content"]


async def test_one_that_is_stopped_by_a_signal_is_given_up_and_its_process_killed(
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
    ("assignment", "told", "said"),
    [
        ("before __steps:50 __sleep_ms:30000", "used up its steps", "before"),
        ("before __drop", "connection", "before"),
        ("before __suspend", "not supported", "before"),
        ("before __panic", "no sign of work", "before"),
        ("before __text:nonsense __fail:boom", "boom", "before"),
        ("before __die:3", "connection", "before"),
    ],
)
async def test_whatever_a_foreign_one_does_its_call_ends_with_what_it_had_said(
    shared_server: Server,
    connect: Connect,
    fleet: Fleet,
    tmp_path: Path,
    assignment: str,
    told: str,
    said: str,
) -> None:
    with served_child(tmp_path / "fabric") as endpoint:
        path = fleet("foreign", endpoint=endpoint, limits={"steps": 5, "idle": 4})
        seat = await take_seat(connect(shared_server), path)
        session = await seat.workspace.session()

        (result,) = await run(seat, session, assignment)

    assert result["is_error"]
    assert told in result["content"]
    assert said in result["content"]
    (child,) = await children(seat, session)
    await idle(seat, child["id"])
    assert roles_and_finishes(await seat.workspace.messages(child["id"]))[-1][1] == "error"


async def test_more_than_a_message_may_hold_ends_it(
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


async def test_our_own_turn_is_held_to_its_budget_of_steps(
    shared_server: Server, connect: Connect, fleet: Fleet
) -> None:
    seat = await take_seat(connect(shared_server), fleet("budget", limits={"steps": 2}))
    session = await seat.workspace.session()

    (result,) = await run(seat, session, '[[tools=9 ls {"path": "."}]] [[n=3 id=over]]')

    assert result["is_error"]
    assert "over-" not in result["content"]


# -- crashes


async def test_after_a_crash_none_is_shown_at_work(
    embedded_server: Server, connect: Connect, fleet: Fleet
) -> None:
    path = fleet("crash", executor="script")
    seat = await take_seat(connect(embedded_server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, agents("__stream:30000:10", "__approve:Write"), run_id="1")
    await seat.stream.wait_for(lambda e: e.type == "message" and "tick" in e.text)
    await asked(seat)
    await are_listed(embedded_server, ["running", "waiting"])

    await asyncio.to_thread(embedded_server.kill9)
    await are_listed(embedded_server, ["lost", "lost"])

    await asyncio.to_thread(embedded_server.restart)
    back = await take_seat(connect(embedded_server), path)
    await idle(back, session)
    await are_listed(embedded_server, [])
    rows = await asyncio.to_thread(listed, embedded_server, "--all")
    assert [(row["state"], row["ending"]) for row in rows] == [("ended", "interrupted")] * 2


async def are_listed(server: Server, states: list[str]) -> None:
    """Until an operator sees sub-agents in these states: what they do is written down behind it."""
    await eventually(
        lambda: sorted(row["state"] for row in listed(server)) == states, f"they are {states}"
    )


@pytest.mark.server_env(CRUSH_LEASE="6", CRUSH_POLL="0.2")
@pytest.mark.server_workers(2)
async def test_a_worker_that_dies_takes_its_own_with_it_and_another_settles_them(
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
    assert "interrupted" in result["content"]
    assert "tick" in result["content"]
    (row,) = await asyncio.to_thread(listed, scaled_server, "--all")
    assert (row["state"], row["ending"]) == ("ended", "interrupted")
    for process in scaled_server.processes("worker"):
        if process.pid == worker.pid:
            process.kill9()  # so that the server's end does not ask it


@pytest.mark.server_env(CRUSH_LEASE="6", CRUSH_POLL="0.2")
@pytest.mark.server_workers(2)
async def test_a_worker_that_slept_past_its_lease_ends_the_sub_agent_that_is_no_longer_its_own(
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
    assert "interrupted" in result["content"]
    (ended,) = await asyncio.to_thread(listed, scaled_server, "--all")
    assert ended["ending"] == "interrupted"


async def test_each_of_two_hears_of_its_answer_that_another_process_took(
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
