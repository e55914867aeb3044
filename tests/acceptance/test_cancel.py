"""A cancel ends what was accepted before it, whatever state that is in, and touches nothing else."""

import asyncio
import contextlib
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.acceptance.conversation import (
    CANCELLED_PAIR,
    SHORT,
    SLOW,
    Seat,
    roles_and_finishes,
    take_seat,
    text_of,
)
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server
from tests.acceptance.harness.stream import Event

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


@pytest.fixture(params=[True, False], ids=["run_id", "no_run_id"])
def new_run_id(request: pytest.FixtureRequest) -> Callable[[], str | None]:
    return (lambda: str(uuid.uuid4())) if request.param else (lambda: None)


async def two_ends(seat: Seat, session: str, *, start: int = 0) -> list[dict[str, Any]]:
    """The first two `run_complete` of a session."""
    ends: list[dict[str, Any]] = []

    def is_second(event: Event) -> bool:
        if event.type == "run_complete" and event.session == session:
            ends.append(event.payload)
        return len(ends) == 2

    await seat.stream.wait_for(is_second, start=start)
    return ends


async def test_another_client_cancels_a_streaming_run(
    shared_server: Server, connect: Connect, project: MakeProject, new_run_id: Callable
) -> None:
    client, path = connect(shared_server), project()
    a, b = await take_seat(client, path), await take_seat(client, path)
    session = await a.workspace.session()
    run_id = new_run_id()
    await a.workspace.prompt(session, SLOW, run_id)
    await a.stream.words(session, 3)
    await b.workspace.cancel(session)
    for seat in (a, b):
        complete = await seat.stream.run_complete(session)
        assert complete["cancelled"] is True
        assert complete.get("run_id") == run_id
        assert "error" not in complete
        assert not [e for e in seat.stream.errors() if e.session == session]
    messages = await a.workspace.messages(session)
    assert roles_and_finishes(messages) == CANCELLED_PAIR
    assert len(text_of(messages[1]).split()) >= 3
    assert complete["message_id"] == messages[1]["id"]
    assert (await a.workspace.get_session(session))["is_busy"] is False


@pytest.mark.timeout(900)
async def test_a_cancel_right_after_the_202_is_never_lost(
    shared_server: Server, connect: Connect, project: MakeProject, new_run_id: Callable
) -> None:
    client = connect(shared_server)
    seat = await take_seat(client, project())
    rounds = 500  # of each kind, 1,000 in all

    async def one_round(number: int) -> None:
        session = await seat.workspace.session()
        start = seat.stream.mark()
        await seat.workspace.prompt(session, SLOW, new_run_id())
        await asyncio.sleep((number % 21) / 1000)  # every delay from 0 to 20 ms
        await seat.workspace.cancel(session)
        complete = await seat.stream.run_complete(session, start=start)
        assert complete["cancelled"] is True, complete
        messages = await seat.workspace.messages(session)
        assert roles_and_finishes(messages) == CANCELLED_PAIR, messages
        assert (await seat.workspace.get_session(session))["is_busy"] is False
        assert await seat.workspace.queued(session) == 0

    for start in range(0, rounds, 10):
        await asyncio.gather(*(one_round(n) for n in range(start, start + 10)))
    assert seat.stream.errors() == []
    assert len(seat.stream.of("run_complete")) == rounds


async def test_a_cancel_between_activation_and_first_message(
    make_a_server: Callable[..., Server],
    shape: str,
    connect: Connect,
    project: MakeProject,
    tmp_path: Path,
    new_run_id: Callable,
) -> None:
    gates = tmp_path / "gates"
    gates.mkdir()
    server = make_a_server(shape, env={"CRUSH_GATES": str(gates)})
    server.start()
    seat = await take_seat(connect(server), project())
    session = await seat.workspace.session()
    (gates / "run.begun.hold").touch()
    await seat.workspace.prompt(session, SLOW, new_run_id())
    async with asyncio.timeout(60):
        while not (gates / "run.begun.reached").exists():
            await asyncio.sleep(0.005)
    await seat.workspace.cancel(session)
    complete = await seat.stream.run_complete(session)
    assert complete["cancelled"] is True
    assert roles_and_finishes(await seat.workspace.messages(session)) == CANCELLED_PAIR
    assert seat.stream.errors() == []
    (gates / "run.begun.hold").unlink()
    await seat.workspace.prompt(session, SHORT, "after")
    assert not (await seat.stream.run_complete(session, "after")).get("cancelled")


async def test_cancels_of_an_idle_session_do_not_affect_later_prompts(
    shared_server: Server, connect: Connect, project: MakeProject, new_run_id: Callable
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session = await seat.workspace.session()
    for _ in range(5):
        await seat.workspace.cancel(session)
    await seat.workspace.prompt(session, SHORT, new_run_id())
    complete = await seat.stream.run_complete(session)
    assert not complete.get("cancelled")
    assert "error" not in complete
    assert roles_and_finishes(await seat.workspace.messages(session)) == [
        ("user", "stop"),
        ("assistant", "end_turn"),
    ]


@pytest.mark.parametrize("how", ["closed", "timed out", "aborted"])
async def test_the_run_outlives_its_http_request(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    new_run_id: Callable,
    how: str,
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session = await seat.workspace.session()
    body: dict[str, object] = {"session_id": session, "prompt": "[[n=20 d=10]]"}
    run_id = new_run_id()
    if run_id is not None:
        body["run_id"] = run_id
    url = f"{shared_server.url}/v1/workspaces/{seat.workspace.id}/agent"
    async with aiohttp.ClientSession() as http:
        answer = await http.post(url, json=body)
        assert answer.status == 202
        if how == "aborted":
            assert answer.connection is None or answer.connection.transport is not None
            answer.close()
        elif how == "timed out":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await answer.read()
                    await asyncio.sleep(1)
    complete = await seat.stream.run_complete(session)
    assert not complete.get("cancelled")
    assert len(complete["text"].split()) == 20


async def test_an_aborted_request_is_accepted_whole_or_not_at_all(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    """The connection is reset at a random moment; a retry with the same run_id settles it."""
    seat = await take_seat(connect(shared_server), project())
    chance = random.Random(7)
    for _ in range(30):
        session, run_id = await seat.workspace.session(), str(uuid.uuid4())
        url = f"{shared_server.url}/v1/workspaces/{seat.workspace.id}/agent"
        body = {"session_id": session, "prompt": SHORT, "run_id": run_id}
        async with aiohttp.ClientSession() as http:
            with contextlib.suppress(TimeoutError, aiohttp.ClientError):
                async with asyncio.timeout(chance.random() * 0.01):
                    await http.post(url, json=body)
        await seat.workspace.prompt(session, SHORT, run_id)
        complete = await seat.stream.run_complete(session, run_id)
        assert not complete.get("cancelled")
        assert roles_and_finishes(await seat.workspace.messages(session)) == [
            ("user", "stop"),
            ("assistant", "end_turn"),
        ]


async def test_another_client_sees_the_end_after_the_prompter_left(
    shared_server: Server, connect: Connect, project: MakeProject, new_run_id: Callable
) -> None:
    client, path = connect(shared_server), project()
    a, b = await take_seat(client, path), await take_seat(client, path)
    session = await a.workspace.session()
    await a.workspace.prompt(session, "[[n=40 d=10]]", new_run_id())
    await a.stream.words(session, 1)
    await a.stream.abort()
    await a.workspace.release()
    complete = await b.stream.run_complete(session)
    assert not complete.get("cancelled")
    assert len(complete["text"].split()) == 40


async def test_a_cancel_takes_the_accepted_follow_up_with_it(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    new_run_id: Callable,
    model: ScriptedModel,
) -> None:
    seat = await take_seat(connect(shared_server), project())
    session = await seat.workspace.session()
    first, second = new_run_id(), new_run_id()
    mark = uuid.uuid4().hex
    await seat.workspace.prompt(session, SLOW, first)
    await seat.stream.words(session, 2)
    await seat.workspace.prompt(session, f"follow up {mark} {SHORT}", second)
    assert await seat.workspace.queued(session) == 1
    await seat.workspace.cancel(session)
    completes = await two_ends(seat, session)
    assert [c.get("run_id") for c in completes] == [first, second]
    assert all(c["cancelled"] is True and "error" not in c for c in completes)
    assert roles_and_finishes(await seat.workspace.messages(session)) == CANCELLED_PAIR * 2
    assert model.served(mark) == []
    assert await seat.workspace.queued(session) == 0


@pytest.mark.timeout(900)
async def test_a_prompt_right_after_a_cancel_is_not_touched_by_it(
    shared_server: Server, connect: Connect, project: MakeProject, new_run_id: Callable
) -> None:
    seat = await take_seat(connect(shared_server), project())
    rounds = 500  # of each kind, 1,000 in all

    async def one_round(number: int) -> None:
        session = await seat.workspace.session()
        start = seat.stream.mark()
        first, second = new_run_id(), new_run_id()
        await seat.workspace.prompt(session, SLOW, first)
        await asyncio.sleep((number % 13) / 1000)
        await seat.workspace.cancel(session)
        await seat.workspace.prompt(session, "after [[n=2]]", second)
        completes = await two_ends(seat, session, start=start)
        assert [c.get("run_id") for c in completes] == [first, second]
        assert [bool(c.get("cancelled")) for c in completes] == [True, False], completes
        assert roles_and_finishes(await seat.workspace.messages(session)) == [
            *CANCELLED_PAIR,
            ("user", "stop"),
            ("assistant", "end_turn"),
        ]

    for start in range(0, rounds, 10):
        await asyncio.gather(*(one_round(n) for n in range(start, start + 10)))
    # Exactly once each: nothing more comes for any of them.
    assert len(seat.stream.of("run_complete")) == 2 * rounds


async def test_a_client_that_retires_cancels_its_own_run(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    """As ctrl-C in a terminal client's `run` does, beside an interactive client of the folder."""
    path = project()
    tui = await take_seat(connect(shared_server), path)
    run = await take_seat(connect(shared_server), path)
    session, interactive = await run.workspace.session(), await tui.workspace.session()
    # Each client has its connections for itself, and names itself on them.
    await tui.workspace.set_current(interactive)
    await run.workspace.set_current(session)
    await tui.workspace.prompt(interactive, SLOW)
    await run.workspace.prompt(session, SLOW, "mine")
    await tui.stream.words(session, 3)
    agent = await tui.workspace.agent()
    assert [busy["id"] for busy in agent["busy_sessions"]] == [interactive]
    await run.workspace.client.retire(run.workspace.client_id)
    complete = await tui.stream.run_complete(session, "mine")
    assert complete["cancelled"] is True
    assert (await tui.workspace.get_session(interactive))["is_busy"] is True
    await tui.workspace.set_current(session)
    assert (await tui.workspace.agent())["is_busy"] is False
    await tui.workspace.cancel(interactive)
