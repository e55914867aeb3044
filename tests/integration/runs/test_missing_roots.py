"""A worker whose disk is away lets others continue its runs, and does not count as lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest_asyncio

from agents.models import Run
from agents.runs.lease import Lease
from agents.runs.pool import PoolSettings, RunPool
from agents.runs.rows import Claimed
from agents.states import RunState
from tests.integration.log.writing import in_thread
from tests.integration.runs.ground import Ground, open_ground, register_worker
from workspaces.delivery.hub import Hub
from workspaces.log.reader import read, stop_reading
from workspaces.log.writer import writer
from workspaces.placement.roots import Root, WorkerScope

DISK = Root("disk", "/mnt/disk")


@dataclass
class EndlessRun:
    """A run that only a cancelled task ends."""

    claimed: Claimed
    is_cancelled: bool = False

    @property
    def held(self) -> Lease:
        run = self.claimed
        return Lease(run.key, run.fence, run.workspace_id, run.session_id)

    def cancel(self) -> None: ...

    def hand_over(self) -> None: ...

    def offer_end(self) -> None: ...

    def receive_answer(self, call_id: str, *, granted: bool) -> None: ...

    async def perform(self) -> None:
        await asyncio.Event().wait()


class Worker:
    def __init__(self, hub: Hub) -> None:
        self.found: tuple[Root, ...] = (DISK,)
        self.pool = RunPool(
            "worker",
            hub=hub,
            settings=PoolSettings(poll_seconds=0.1),
            scope=lambda: WorkerScope(True, self.found, (DISK,), frozenset()),
            start_run=EndlessRun,
        )


@pytest_asyncio.fixture
async def worker(database: str) -> AsyncIterator[Worker]:
    writer.start(loop=asyncio.get_running_loop())
    hub = Hub()
    await hub.start()
    await in_thread(register_worker, "worker")
    worker = Worker(hub)
    worker.pool.start()
    yield worker
    await worker.pool.drain(seconds=0)
    await worker.pool.stop()
    await hub.stop()
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)


async def in_state(key: int, state: RunState) -> Run:
    async with asyncio.timeout(30):
        while (run := await read(lambda: Run.objects.get(pk=key))).state != state:
            await asyncio.sleep(0.05)
    return run


async def test_a_run_below_a_missing_root_does_not_count_its_worker_as_lost(
    worker: Worker,
) -> None:
    ground: Ground = await in_thread(open_ground, f"{DISK.path}/shop")
    key = await in_thread(ground.accept)
    await in_state(key, RunState.RUNNING)

    worker.found = ()
    run = await in_state(key, RunState.READY)

    assert run.lost_workers == 0
    worker.found = (DISK,)
    await in_state(key, RunState.RUNNING)
