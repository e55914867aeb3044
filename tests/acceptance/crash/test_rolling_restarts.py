"""A deployment: every process is restarted in turn while runs stream and call tools."""

import asyncio
from collections import Counter

import pytest

from agents.turn.notes import UNKNOWN_RESULT
from tests.acceptance.calling import results
from tests.acceptance.conversation import Seat, take_seat, text_of
from tests.acceptance.crash.ground import PATIENT, Connect, MakeProject, MakeServer, bash, log_of
from tests.acceptance.folding import Fold
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.shapes import Shape

pytestmark = pytest.mark.timeout(400)

STREAMS, CALLERS = 6, 6
WORDS, STEPS = 500, 8
START_SECONDS = 90
# The drain is shorter than what runs: some are handed over in mid-reply and in mid-tool.
HASTY = {"CRUSH_DRAIN": "1", "CRUSH_POLL": "0.2"}


async def test_nothing_is_interrupted_and_no_effect_happens_twice(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(shape, env={**PATIENT, **HASTY}, webs=2, workers=2)
    await asyncio.to_thread(server.start)
    path = project()
    seat = await take_seat(connect(server), path, yolo=True)
    talking = [await seat.workspace.session() for _ in range(STREAMS)]
    calling = [await seat.workspace.session() for _ in range(CALLERS)]
    for session in talking:
        await seat.workspace.prompt(session, f"[[n={WORDS} d=20]]")
    for number, session in enumerate(calling):
        steps = (bash(f"echo {number}.{step} >> marks; sleep 0.5") for step in range(STEPS))
        await seat.workspace.prompt(session, f"[[calls={' ;; '.join(steps)}]] [[n=3]]")
    for session in talking:
        await seat.stream.words(session, 3)
    for process in server.processes():
        await asyncio.to_thread(restart, process)
    seat = await take_seat(connect(server), path, yolo=True, client_id=seat.workspace.client_id)
    fold = await when_all_have_ended(connect(server), seat, STREAMS + CALLERS)
    assert [run["outcome"] for run in fold.ends] == ["completed"] * (STREAMS + CALLERS)
    for session in talking:
        (reply,) = [m for m in await seat.workspace.messages(session) if m["role"] == "assistant"]
        assert len(text_of(reply).split()) == WORDS
    counted = Counter((path / "marks").read_text().split())
    assert set(counted.values()) == {1}
    # Of a command that was cut, nobody knows whether it has made its mark, and the model reads so.
    unknown = 0
    for session in calling:
        found = results(await seat.workspace.messages(session))
        assert len(found) == STEPS
        unknown += sum(UNKNOWN_RESULT[:40] in result["content"] for result in found)
    assert len(counted) >= CALLERS * STEPS - unknown


def restart(process: Process) -> None:
    assert process.stop() == 0
    process.start()
    process.wait_for_line("Serving|Working", START_SECONDS)


async def when_all_have_ended(client: Client, seat: Seat, count: int) -> Fold:
    async with asyncio.timeout(180):
        while len((fold := await log_of(client, seat.workspace)).ends) < count:
            await asyncio.sleep(0.2)
    fold.check_runs()
    return fold
