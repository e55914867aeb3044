"""A COMMIT whose answer is lost is neither done twice nor forgotten."""

import asyncio
import json
from collections import Counter

import psycopg

from tests.acceptance.calling import results
from tests.acceptance.conversation import take_seat
from tests.acceptance.faults.conftest import NewDetour
from tests.acceptance.folding import Fold
from tests.acceptance.harness.native import NativeSse
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer

PROMPTS = 40
CUTS = 12


async def test_prompts_without_a_run_id_are_accepted_once(
    make_a_server: MakeServer, detour: NewDetour, connect: Connect, project: MakeProject
) -> None:
    way = detour("DATABASE_URL", "web")
    server = make_a_server(Shape.SCALED, reroute=way)
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project())
    sessions = [await seat.workspace.session() for _ in range(4)]
    way.proxy.cut_next_commits(CUTS)
    for number in range(PROMPTS):
        await seat.workspace.prompt(sessions[number % 4], "[[n=1]]")
    assert way.proxy.cut_commits == CUTS
    assert await asyncio.to_thread(_accepted, server) == PROMPTS


async def test_runs_and_their_results_are_stored_once(
    make_a_server: MakeServer, detour: NewDetour, connect: Connect, project: MakeProject
) -> None:
    way = detour("DATABASE_URL", "worker")
    server = make_a_server(Shape.SCALED, reroute=way)
    await asyncio.to_thread(server.start)
    client = connect(server)
    seat = await take_seat(client, project(), yolo=True)
    native = await NativeSse(client.http, seat.workspace.id, after=0).open()
    sessions = [await seat.workspace.session() for _ in range(5)]
    step = json.dumps({"command": "echo step", "description": "s"})
    for number, session in enumerate(sessions):
        await seat.workspace.prompt(session, f"[[tools=4 bash {step}]] [[n=3]]", f"run {number}")
    way.proxy.cut_next_commits(CUTS)
    for number, session in enumerate(sessions):
        complete = await seat.stream.run_complete(session, f"run {number}")
        assert "error" not in complete, complete
    assert way.proxy.cut_commits == CUTS
    fold = Fold()
    await native.wait_for(
        lambda r: r.type == "run.finished" and len(_ended(native)) == len(sessions)
    )
    for item in native.received:
        if item.type != "tool.output":  # never stored
            fold.take(item.body)
    for session in sessions:
        messages = await seat.workspace.messages(session)
        calls = Counter(result["tool_call_id"] for result in results(messages))
        assert len(calls) == 4
        assert set(calls.values()) == {1}
        folded = [m["id"] for m in fold.messages.values() if m["session_id"] == session]
        assert folded == [message["id"] for message in messages]
        assert all(
            any(part["type"] == "finish" for part in message["parts"])
            for message in messages
            if message["role"] == "assistant"
        )
    await native.close()


def _ended(native: NativeSse) -> list[object]:
    return [r for r in native.received if r.type == "run.finished"]


def _accepted(server: Server) -> int:
    with psycopg.connect(server.env["DATABASE_URL"]) as connection:
        row = connection.execute("SELECT count(*) FROM agents_run").fetchone()
    assert row is not None
    return int(row[0])
