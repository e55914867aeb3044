"""What the pool relies on, for everything that performs a run: the contract of ``StartRun``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from agents.config.settings import ModelChoice, ModelInfo, Settings
from agents.fleet.child.consumer import SocketSender
from agents.fleet.child.conversation import ParentConversation, RunCounts
from agents.fleet.child.script import ScriptExecutor
from agents.fleet.parent.joined import JoinedConnection, RemoteWorkers, WorkerHello
from agents.llm.contract import ModelRequest, Stopped, TextDelta, Usage
from agents.models import Run, RunKind
from agents.runs.calls.outputs import CallOutputs
from agents.runs.cancel import cancel
from agents.runs.children.host import fleet_host
from agents.runs.claims.claim_order import ClaimedPlaces
from agents.runs.lease import LeaseLost
from agents.runs.prompting.remote_workers import note_worker
from agents.runs.reply import Checkpoints
from agents.runs.rows import Claimed
from agents.runs.setup import Model, RunSetup
from agents.runs.start.remote_run import StartRemote
from agents.runs.start.start_run import RunMeans, StartedRun, StartHere, StartRun
from agents.services import Services
from tests.integration.log.writing import in_thread
from tests.integration.runs.ground import Ground, claim, open_ground, run_of, write
from workspaces.delivery.hub import Hub
from workspaces.log.parts import FinishReason
from workspaces.log.reader import stop_reading
from workspaces.log.writer import writer
from workspaces.models import Message

ROLE = {"executor": "script", "description": "Does what its words say."}
WAIT = "__sleep_ms:600000"
PLACE = "box:src"
HELLO = WorkerHello("box", "first", ("src",), 1)


@dataclass
class Obedient:
    """A model that repeats the prompt, or never ends its reply."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[list[Any]]:
        said = str(request.messages[-1])
        yield [TextDelta("done")]
        if WAIT in said:
            await asyncio.Event().wait()
        yield [Stopped(FinishReason.END_TURN, Usage(input=1, output=1))]


async def obedient_setup(_claimed: Claimed) -> RunSetup:
    chosen = Settings({}, ModelChoice("obedient", "one"), ModelChoice("obedient", "one"))
    model = Model(chosen.large, ModelInfo("one", "One", context_window=0), Obedient())
    return RunSetup(model, "You write.", {}, chosen, {}, "/", "")


class JoinedScript:
    """A remote worker in this process, which does what the words of a prompt say."""

    def __init__(self, workers: RemoteWorkers) -> None:
        self._connection = JoinedConnection(self._from_server, path=PLACE, hello=HELLO)
        self._sender = SocketSender(self._from_worker)
        counts = RunCounts()
        self._conversation = ParentConversation(
            self._sender, ScriptExecutor(counts), counts, drop=self._sender.drop
        )
        workers.join(self._connection)

    async def _from_server(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "websocket.send":
            self._conversation.take(message["text"])
        else:
            self._conversation.on_disconnect()

    async def _from_worker(self, message: MutableMapping[str, Any]) -> None:
        await self._connection.receive(message["text"])

    async def close(self) -> None:
        self._sender.close()
        self._conversation.on_disconnect()
        await self._conversation.finish()


@dataclass
class Place:
    """One implementation, with the runs that it performs."""

    ground: Ground
    start_run: StartRun
    kind: RunKind

    async def start(self, words: str) -> StartedRun:
        return await in_thread(partial(self._start, words))

    def _start(self, words: str) -> StartedRun:
        key = self.ground.accept(words, kind=self.kind)
        Run.objects.filter(pk=key).update(role="theirs")
        (claimed,) = claim(places=ClaimedPlaces(remote={PLACE: 1}))
        return self.start_run(claimed)

    async def has_begun_reply(self, run: StartedRun) -> None:
        reply = Message.objects.filter(run_key=run.claimed.key, role="assistant")
        async with asyncio.timeout(60):
            while not await in_thread(reply.exists):
                await asyncio.sleep(0.02)

    async def row(self, run: StartedRun) -> Run:
        return await in_thread(run_of, run.claimed.key)


@pytest_asyncio.fixture(params=[RunKind.PROMPT, RunKind.FLEET, PLACE])
async def place(
    request: pytest.FixtureRequest, database: str, tmp_path: Path
) -> AsyncIterator[Place]:
    written = {"fleet": {"theirs": ROLE}, "tools": {"agent": {"role": "theirs"}}}
    (tmp_path / "crush.json").write_bytes(orjson.dumps(written))
    hub, checkpoints, outputs = Hub(), Checkpoints(), CallOutputs()
    services = Services((fleet_host(),))
    writer.start(loop=asyncio.get_running_loop())
    await hub.start()
    services.start()
    checkpoints.start()
    is_remote = request.param == PLACE
    ground = await in_thread(open_ground, PLACE if is_remote else str(tmp_path))
    means = RunMeans("worker", hub, checkpoints, asyncio.create_task)
    workers = RemoteWorkers(on_free=lambda: None)
    here = StartHere(means, outputs=outputs, setup_of=obedient_setup)
    start_run = StartRemote(here, workers, means)
    remote = JoinedScript(workers)
    await in_thread(write, partial(note_worker, hello=HELLO, server="worker"))
    kind = RunKind.PROMPT if is_remote else request.param
    yield Place(ground, start_run, kind)
    await remote.close()
    await services.stop()
    await checkpoints.stop()
    await hub.stop()
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)


async def test_a_started_run_is_the_claimed_one_and_ends_in_its_row(place: Place) -> None:
    run = await place.start("go")
    claimed = run.claimed
    assert run.held.key == claimed.key
    assert run.held.fence == claimed.fence
    assert run.held.session_id == place.ground.session_id
    assert not run.is_cancelled

    await run.perform()

    assert (await place.row(run)).outcome == "completed"
    assert not run.is_cancelled


@pytest.mark.parametrize("place", [RunKind.FLEET, PLACE], indirect=True)
async def test_a_long_error_of_another_process_is_cut(place: Place) -> None:
    run = await place.start(f"__fail:{'no' * 50_000}")
    await run.perform()
    row = await place.row(run)
    assert row.outcome == "failed"
    assert "characters left out" in row.error
    assert len(row.error) < 5_000


async def test_a_run_that_waits_ends_as_cancelled_after_a_cancel(place: Place) -> None:
    run = await place.start(WAIT)
    performing = asyncio.create_task(run.perform())
    await place.has_begun_reply(run)
    await cancel(place.ground.workspace_id, place.ground.session_id)

    run.cancel()
    run.cancel()
    await performing

    assert run.is_cancelled
    assert (await place.row(run)).outcome == "cancelled"


async def test_what_the_pool_passes_on_harms_no_run_that_does_not_expect_it(place: Place) -> None:
    run = await place.start("go")
    assert run.offer_end() is None  # nothing has begun
    run.receive_answer("no call of it", granted=True)

    await run.perform()
    run.receive_answer("no call of it", granted=False)
    run.hand_over()
    run.cancel()

    assert (await place.row(run)).outcome == "completed"


async def test_a_run_that_another_worker_holds_is_not_performed(place: Place) -> None:
    run = await place.start("go")
    rows = Run.objects.filter(pk=run.claimed.key)
    await in_thread(partial(rows.update, fence=run.held.fence + 1, worker="another"))

    with pytest.raises(LeaseLost):
        await run.perform()

    assert (await place.row(run)).state == "running"


async def test_a_run_whose_task_is_cut_stores_no_end(place: Place) -> None:
    run = await place.start(WAIT)
    performing = asyncio.create_task(run.perform())
    await place.has_begun_reply(run)

    performing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await performing

    assert (await place.row(run)).state == "running"
