"""A cancel stores the end of a run that waits for its model, in the same transaction."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from agents.config.settings import ModelChoice, ModelInfo, Settings
from agents.llm.contract import ModelRequest, Stopped, TextDelta, Usage
from agents.models import Run
from agents.runs import nudges
from agents.runs.accept import Prompt, accept
from agents.runs.cancel import cancel, stop_taking_offers_of, take_offers_of
from agents.runs.pool import PoolSettings, RunPool
from agents.runs.rows import Claimed
from agents.runs.setup import Model, RunSetup
from agents.turn.notes import CANCELLED_NOTE
from tests.integration.log.writing import in_thread
from tests.integration.runs.ground import Ground, cancelled_of, register_worker
from workspaces.delivery.hub import Hub
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.parts import FinishReason
from workspaces.log.reader import read, stop_reading
from workspaces.log.writer import writer
from workspaces.models import Message, Workspace

LAST = [TextDelta("."), Stopped(FinishReason.END_TURN, Usage(input=1, output=1))]


@dataclass
class Dictated:
    """A model that says what the test puts."""

    batches: asyncio.Queue[list[Any]] = field(default_factory=asyncio.Queue)
    is_closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def stream(self, _request: ModelRequest) -> AsyncIterator[list[Any]]:
        try:
            while True:
                batch = await self.batches.get()
                yield batch
                if batch is LAST:
                    return
        finally:
            self.is_closed.set()


@dataclass
class Worked:
    """A run that receives a reply from its model."""

    ground: Ground
    model: Dictated
    hub: Hub
    key: int

    async def cancel(self) -> None:
        await cancel(self.ground.workspace_id, self.ground.session_id)

    def shown(self) -> str:
        """The text that readers have of the open reply."""
        (live,) = self.hub._producers[self.ground.workspace_id].values()
        return "".join(part["data"]["text"] for part in live.to_wire()["parts"])

    async def say(self, words: str) -> None:
        self.model.batches.put_nowait([TextDelta(words)])
        async with asyncio.timeout(30):
            while not self.model.batches.empty():
                await asyncio.sleep(0.001)
        await asyncio.sleep(0)

    async def run(self) -> Run:
        return await read(lambda: Run.objects.get(pk=self.key))

    async def ended(self) -> Run:
        async with asyncio.timeout(30):
            while (run := await self.run()).state != "finished":
                await asyncio.sleep(0.01)
        return run

    async def reply(self) -> str:
        row = await read(lambda: Message.objects.get(run_key=self.key, role="assistant"))
        return str(row.parts)


@pytest_asyncio.fixture
async def worked(ground: Ground) -> AsyncIterator[Worked]:
    writer.start(loop=asyncio.get_running_loop())
    hub, model = Hub(), Dictated()
    await hub.start()
    choice = Settings({}, ModelChoice("dictated", "one"), ModelChoice("dictated", "one"))
    used = Model(choice.large, ModelInfo("one", "One", context_window=0), model)

    async def setup_of(_claimed: Claimed) -> RunSetup:
        return RunSetup(used, "You write.", {}, choice, {}, "/", "")

    await in_thread(register_worker, "worker")
    pool = RunPool("worker", hub=hub, settings=PoolSettings(), setup_of=setup_of)
    take_offers_of(pool.offer_end)
    nudges.listen_here(pool.receive_nudge)
    pool.start()
    accepted = await accept(ground.workspace_id, Prompt(ground.session_id, "go"))
    worked = Worked(ground, model, hub, accepted.key)
    await worked.say("so far")
    yield worked
    nudges.stop_listening_here(pool.receive_nudge)
    stop_taking_offers_of(pool.offer_end)
    await pool.drain(seconds=0)
    await pool.stop()
    await hub.stop()
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)


@asynccontextmanager
async def busy_writer() -> AsyncIterator[None]:
    """The writer does nothing else inside of this block."""
    begun, may_end = threading.Event(), threading.Event()

    def wait(_: Any) -> None:
        begun.set()
        may_end.wait(30)

    waiting = asyncio.create_task(writer.write("", wait))
    await asyncio.to_thread(begun.wait, 30)
    try:
        yield
    finally:
        may_end.set()
        await waiting


async def test_a_cancel_returns_when_its_run_has_ended(worked: Worked) -> None:
    await worked.cancel()

    run = await worked.run()
    assert (run.state, run.outcome) == ("finished", "cancelled")
    assert "so far" in (reply := await worked.reply())
    assert CANCELLED_NOTE in reply
    async with asyncio.timeout(30):
        await worked.model.is_closed.wait()


async def test_a_reply_does_not_grow_while_its_end_is_stored(worked: Worked) -> None:
    async with busy_writer():
        cancelling = asyncio.create_task(worked.cancel())
        await asyncio.sleep(0)
        await worked.say(" and more")
        assert worked.shown() == "so far"
    await cancelling

    assert "so far" in (reply := await worked.reply())
    assert "more" not in reply
    assert worked.ground.workspace_id not in worked.hub._producers


async def test_a_reply_continues_after_a_refused_cancel(worked: Worked) -> None:
    await writer.write("", lambda _: Workspace.objects.update(is_open=False))
    async with busy_writer():
        cancelling = asyncio.create_task(worked.cancel())
        await asyncio.sleep(0)
        await worked.say(" and more")
    with pytest.raises(WorkspaceUnknown):
        await cancelling
    worked.model.batches.put_nowait(LAST)

    assert (await worked.ended()).outcome == "completed"
    assert "so far and more." in await worked.reply()


async def test_a_reply_that_ends_during_a_refused_cancel_counts(worked: Worked) -> None:
    await writer.write("", lambda _: Workspace.objects.update(is_open=False))
    async with busy_writer():
        cancelling = asyncio.create_task(worked.cancel())
        await asyncio.sleep(0)
        worked.model.batches.put_nowait(LAST)
        await asyncio.sleep(0.01)
    with pytest.raises(WorkspaceUnknown):
        await cancelling

    assert (await worked.ended()).outcome == "completed"
    assert "so far." in await worked.reply()


async def test_two_cancels_at_once_end_a_run_once(worked: Worked) -> None:
    await asyncio.gather(worked.cancel(), worked.cancel())

    assert (await worked.run()).outcome == "cancelled"
    assert len(await read(lambda: worked.ground.events("run.finished"))) == 1


async def test_a_cancel_of_a_run_that_another_worker_holds_now_is_stored(worked: Worked) -> None:
    def take_over(_: Any) -> int:
        (fence,) = Run.objects.values_list("fence", flat=True)
        Run.objects.update(fence=fence + 1, worker="another")
        return int(fence) + 1

    fence = await writer.write("", take_over)
    await worked.cancel()

    assert (await worked.run()).state == "running"
    assert await read(cancelled_of, "another") == [(worked.key, fence)]
