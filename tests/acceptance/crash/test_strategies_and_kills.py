"""`kill -9` while prompts end and undo each other's turns: none is lost, none is doubled."""

import asyncio
import contextlib
import random
from typing import Any

import aiohttp
import pytest

from tests.acceptance.conversation import take_seat, text_of
from tests.acceptance.crash.ground import (
    PATIENT,
    QUICK,
    Connect,
    MakeProject,
    MakeServer,
    log_of,
)
from tests.acceptance.harness.client import Workspace

STRATEGIES = ("enqueue", "steer", "interrupt", "rollback")
ROUNDS, PROMPTS = 4, 6


async def send(workspace: Workspace, session: str, body: dict[str, Any]) -> int:
    path = f"/api/workspaces/{workspace.id}/sessions/{session}/prompts"
    return int((await workspace.client.http.call("POST", path, body, expect=202))["key"])


async def send_all(
    workspace: Workspace, session: str, bodies: list[dict[str, Any]], known: dict[str, int]
) -> None:
    """Sends prompts until the server dies; ``known`` gets the keys of those with a response."""
    for body in bodies:
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            known[body["run_id"]] = await send(workspace, session, body)
        await asyncio.sleep(0.02)


@pytest.mark.timeout(600)
async def test_every_prompt_has_one_run_and_one_end(
    make_a_server: MakeServer, shape: str, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(shape, env={**PATIENT, **QUICK})
    server.start()
    path, draw = project(), random.Random(5)
    seat = await take_seat(connect(server), path, yolo=True)
    workspace = seat.workspace
    session = await workspace.session()
    known: dict[str, int] = {}
    for number in range(ROUNDS):
        bodies = [
            {
                "text": f"{number}-{n} [[tools=2 ls {{}}]] [[n=20 d=10]]",
                "run_id": f"{number}-{n}",
                "strategy": draw.choice(STRATEGIES),
            }
            for n in range(PROMPTS)
        ]

        sending = asyncio.create_task(send_all(workspace, session, bodies, known))
        await asyncio.sleep(0.05 + draw.random() / 2)
        await asyncio.to_thread(server.kill9)
        await sending
        await asyncio.to_thread(server.start)
        seat = await take_seat(connect(server), path, yolo=True, client_id=workspace.client_id)
        workspace = seat.workspace
        for body in bodies:  # a client that got no response sends the same again
            key = await send(workspace, session, body)
            assert known.setdefault(body["run_id"], key) == key
    async with asyncio.timeout(120):
        while (await workspace.agent())["is_busy"]:
            await asyncio.sleep(0.1)

    fold = await log_of(connect(server), workspace)
    fold.check_runs()
    assert sorted(fold.accepted) == sorted(known.values())
    assert len(set(known.values())) == ROUNDS * PROMPTS
    assert len(fold.ends) + sum(fold.folded.values()) == ROUNDS * PROMPTS
    texts = [text_of(m) for m in await workspace.messages(session) if m["role"] == "user"]
    assert len(texts) == len(set(texts))
    # A run ends as interrupted only if five servers died; it met at most four.
    assert {run["outcome"] for run in fold.ends} <= {"completed", "cancelled"}
