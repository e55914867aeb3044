"""`kill -9` at any moment: what was accepted comes to exactly one end, and nothing is done twice."""

import asyncio
import random
import re
import time
from collections import Counter
from typing import Any

import pytest

from tests.acceptance.crash.ground import PATIENT, QUICK, Connect, MakeProject, MakeServer, log_of
from tests.acceptance.crash.ordeal import Ordeal, Place
from tests.acceptance.folding import differences
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Shape
from workspaces.queries.snapshot import MOST_MESSAGES

KILLS = 50


def finish_of(message: dict[str, Any]) -> dict[str, Any]:
    return next(p["data"] for p in message["parts"] if p["type"] == "finish")


@pytest.mark.timeout(1800)
async def test_every_accepted_run_ends_once_whenever_the_server_is_killed(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")  # shown when it fails
    chance = random.Random(seed)
    server = make_a_server(shape, env={**PATIENT, **QUICK})
    await asyncio.to_thread(server.start)
    places = [Place(project("free"), yolo=True), Place(project("asked"), yolo=False)]
    ordeal = Ordeal(server, chance, places)
    await ordeal.warm_up()
    began = time.monotonic()
    for _ in range(KILLS):
        which = (
            "all" if shape is Shape.EMBEDDED else chance.choice(["worker", "worker", "web", "all"])
        )
        await ordeal.round(which)
    print(f"{KILLS} kills in {time.monotonic() - began:.0f} s")
    client = connect(server)
    await ordeal.settle(client)
    counts = [await check_place(client, place) for place in places]
    assert sum(counts) > 100


async def check_place(client: Client, place: Place) -> int:
    """How many runs came to their end there."""
    workspace, reader = place.workspace, place.reader
    assert workspace is not None
    assert reader is not None
    fold = await log_of(client, workspace)
    fold.check_runs()
    await reader.read_to(fold.number)
    assert reader.fold.messages == fold.messages
    assert reader.fold.sessions == fold.sessions
    by_run_id = Counter(run.get("run_id") for run in fold.accepted.values())
    anonymous = by_run_id.pop(None, 0)
    assert set(place.accepted) == set(by_run_id)
    assert all(count == 1 for count in by_run_id.values())
    # A request that died with the server may have been accepted all the same.
    assert anonymous >= place.anonymous
    assert (await workspace.agent())["is_busy"] is False
    stored: list[dict[str, Any]] = []
    for session in place.sessions:
        assert (await workspace.get_session(session))["is_busy"] is False
        assert await workspace.queued(session) == 0
        path = f"/api/workspaces/{workspace.id}/snapshot"
        params = {"session": session, "limit": MOST_MESSAGES}
        snapshot = await client.http.call("GET", path, params=params)
        assert differences(fold, snapshot, session) == []
        # `/v1` has no authors.
        shown = [
            {name: value for name, value in message.items() if name != "author"}
            for message in snapshot["messages"]
        ]
        assert shown == await workspace.messages(session)
        check_calls(snapshot["messages"])
        stored += snapshot["messages"]
    outcomes = Counter(run["outcome"] for run in fold.ends)
    print(outcomes)
    assert set(outcomes) <= {"completed", "interrupted"}, outcomes
    messages = {message["id"]: message for message in stored}
    for run in fold.ends:
        last = finish_of(messages[run["message_id"]])
        if run["outcome"] == "interrupted":
            assert "stopped 5 times" in run["error"]
            assert last["reason"] == "error"
        else:
            assert not run["error"]
            assert last["reason"] == "end_turn"
    check_executions(place, stored)
    return len(fold.ends)


def check_calls(messages: list[dict[str, Any]]) -> None:
    """Every call of a session has one result, and follows a reply that is finished."""
    calls: Counter[str] = Counter()
    results: Counter[str] = Counter()
    for message in messages:
        assert [p["type"] for p in message["parts"]].count("finish") == 1, message
        for part in message["parts"]:
            if part["type"] == "tool_call":
                calls[part["data"]["id"]] += 1
            elif part["type"] == "tool_result":
                results[part["data"]["tool_call_id"]] += 1
    assert calls == results


def check_executions(place: Place, messages: list[dict[str, Any]]) -> None:
    """Each call ran at most once, and each that has its tool's own result ran."""
    commands: Counter[str] = Counter()
    finished: Counter[str] = Counter()
    tags: dict[str, str] = {}
    for message in messages:
        for part in message["parts"]:
            data = part["data"]
            if part["type"] == "tool_call":
                tag = re.search(r"echo (m\d+) ", data["input"])
                assert tag is not None
                tags[data["id"]] = tag[1]
                commands[tag[1]] += 1
            elif part["type"] == "tool_result" and not data["is_error"]:
                finished[tags[data["tool_call_id"]]] += 1
    marks = place.marks
    for tag in commands | marks:
        assert finished[tag] <= marks[tag] <= commands[tag], tag
    assert finished.total() >= 3
