"""Simulated processes of the server: workers with the real pool, and web processes with real rooms."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeVar

from channels.layers import get_channel_layer

from agents.models import RunKind
from agents.runs import nudges
from agents.runs.accept import Prompt, accept_prompt
from agents.runs.lease import Lease, LeaseLost
from agents.runs.pool import PoolSettings, RunPool
from agents.runs.prompting.begin import begin_run
from agents.runs.rows import Claimed
from agents.runs.steps import OfferedEnd, Step, write_step
from agents.states import RunOutcome
from agents.turn.effects import End
from crushsite.registration import ProcessRegistration, ProcessShape
from tests.simulation.ledger import Ledger
from tests.simulation.virtual_time import Machine, SimulatedLoop
from workspaces.delivery.hub import Hub
from workspaces.delivery.readers import NativeReader, Wire
from workspaces.log.commits import Job, run_alone
from workspaces.log.database_clock import COMPARE_SECONDS
from workspaces.log.transaction import RecordedEvent, Transaction
from workspaces.log.types import Kind

T = TypeVar("T")

BATCH_LIMIT = 256
STEP = "simulation.step"  # the kind of the event that each step of a run appends
_ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)


class SimulatedWriter:
    """The writer of one machine: its jobs reach the database together, one after another."""

    def __init__(
        self,
        machine: Machine,
        ledger: Ledger,
        *,
        publish: Callable[[Sequence[RecordedEvent]], None],
    ) -> None:
        self._machine, self._ledger, self._publish = machine, ledger, publish
        self._queue: list[tuple[str, Job[Any], asyncio.Future[Any]]] = []
        self._filled = asyncio.Event()
        self.jobs: Counter[str] = Counter()
        self.worker = lambda: machine.name

    async def __call__(self, workspace_id: str, job: Job[T], /) -> T:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append((workspace_id, job, answer))
        self._filled.set()
        return await answer

    async def work(self) -> None:
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._queue:
                await self._machine.reach_database()
                batch, self._queue = self._queue[:BATCH_LIMIT], self._queue[BATCH_LIMIT:]
                done = [self._commit(workspace_id, job) for workspace_id, job, _ in batch]
                await self._machine.reach_database()
                for (_, _, answer), (value, recorded) in zip(batch, done, strict=True):
                    self._publish(recorded)
                    if answer.done():
                        continue
                    if isinstance(value, Exception):
                        answer.set_exception(value)
                    else:
                        answer.set_result(value)

    def _commit(self, workspace_id: str, job: Job[Any]) -> tuple[Any, list[RecordedEvent]]:
        self.jobs[_name_of(job)] += 1
        try:
            loop = self._machine.loop
            value, recorded = loop.on_database(self._machine, run_alone, workspace_id, job)
        except Exception as error:
            if isinstance(error, LeaseLost):
                self._ledger.fenced_off += 1
            return error, []
        if isinstance(value, list) and value and isinstance(value[0], Claimed):
            self._ledger.claim(self.worker(), value)
        for event in recorded:
            if event.kind == Kind.RUN_FINISHED:
                self._ledger.finish(event.payload["run"]["key"])
        return value, recorded


def _name_of(job: Job[Any]) -> str:
    function = job.func if isinstance(job, partial) else job
    return function.__qualname__.replace(".<locals>", "").removesuffix(".<lambda>")


class SimulatedRun:
    """A claimed run, as the pool performs it: some steps, each a write, with pauses."""

    def __init__(self, claimed: Claimed, host: WorkerHost) -> None:
        self.claimed = claimed
        self.held = Lease(claimed.key, claimed.fence, claimed.workspace_id, claimed.session_id)
        self.is_cancelled = False
        self._host = host
        self._is_handed_over = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def hand_over(self) -> None:
        self._is_handed_over = True

    def offer_end(self) -> OfferedEnd | None:
        return None

    def receive_answer(self, call_id: str, *, granted: bool) -> None:
        """No run of a simulation has a sub-agent."""

    async def perform(self) -> None:
        steps, (shortest, longest) = self._host.steps
        await self._write(lambda tx: begin_run(tx, self.held))
        for _ in range(steps):
            await asyncio.sleep(self._host.machine.random.uniform(shortest, longest))
            if self._is_handed_over:
                await self._write(self._release)
                return
            await self._write(self._step)
        await self._write(lambda tx: write_step(tx, self.held, _END))

    def _step(self, tx: Transaction) -> None:
        write_step(tx, self.held, Step())
        held = self.held
        payload = {"run": held.key, "fence": held.fence}
        tx.append(held.workspace_id, STEP, payload, session_id=held.session_id)

    def _release(self, tx: Transaction) -> None:
        write_step(tx, self.held, Step(releases=True))
        self._host.ledger.release(self.held.key)

    async def _write(self, job: Job[Any]) -> None:
        def noted(tx: Transaction) -> None:
            job(tx)
            self._host.ledger.write(self._host.machine.name, self.held.key, self.held.fence)

        noted.__qualname__ = "a run's step"
        await self._host.write(self.held.workspace_id, noted)


_END = Step(end=End(RunOutcome.COMPLETED))


class Host:
    """What both kinds of process have: a writer, a hub, and the database's clock."""

    def __init__(self, loop: SimulatedLoop, name: str, ledger: Ledger, *, seed: object) -> None:
        self.machine = Machine(loop, name, seed=seed)
        self.ledger = ledger
        self.hub = Hub()
        self.write = SimulatedWriter(self.machine, ledger, publish=self.publish)

    def publish(self, recorded: Sequence[RecordedEvent]) -> None:
        self.hub.publish(recorded)

    async def _begin(self) -> None:
        self.machine.start(self.write.work(), name="writer")
        await self._compare_clock()
        self.machine.start(self._follow_clock(), name="clock")
        await self.hub.start()

    async def _follow_clock(self) -> None:
        while True:
            await asyncio.sleep(COMPARE_SECONDS)
            await self._compare_clock()

    async def _compare_clock(self) -> None:
        clock, machine = self.machine.clock, self.machine
        before = clock.steady_ns()
        await machine.reach_database()
        found = machine.loop.true_ns()
        await machine.reach_database()
        clock.adjust(found, before_ns=before, after_ns=clock.steady_ns())


class WorkerHost(Host):
    def __init__(
        self,
        loop: SimulatedLoop,
        name: str,
        ledger: Ledger,
        *,
        seed: object,
        places: int,
        steps: tuple[int, tuple[float, float]],
        lease_seconds: float,
        find_disconnected: Callable[[Collection[str]], Collection[str]],
    ) -> None:
        super().__init__(loop, name, ledger, seed=seed)
        self.steps, self.places = steps, places
        self.is_draining = False
        self.pool = RunPool(
            name,
            hub=self.hub,
            settings=PoolSettings(lease_seconds=lease_seconds, max_runs=places),
            find_disconnected=find_disconnected,
            write=self.write,
            start_run=lambda claimed: SimulatedRun(claimed, self),
        )
        self.registration = ProcessRegistration(
            name,
            ProcessShape(works=True, serves=False, is_alone=False),
            runs=lambda: self.pool.running,
            is_draining=lambda: self.is_draining,
            on_lost=self.pool.begin_again,
            write=self.write,
        )
        self.write.worker = lambda: self.pool.worker
        self.task = self.machine.start(self._live(), name="worker")

    def publish(self, recorded: Sequence[RecordedEvent]) -> None:
        super().publish(recorded)
        for event in recorded:
            if event.kind == Kind.RUN_FINISHED:
                self.pool.receive_end(event.payload["run"]["key"])

    async def _live(self) -> None:
        await self._begin()
        await self.registration.start()
        self.pool.start()
        layer: Any = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(nudges.GROUP, channel)
        while True:
            self.pool.receive_nudge(await layer.receive(channel))

    async def leave(self) -> None:
        """Stops as the server does at SIGTERM."""
        self.is_draining = True
        await self.pool.drain(seconds=5.0)
        await self.pool.stop()
        await self.registration.stop()
        await self.hub.stop()
        self.machine.is_dead = True


class WebHost(Host):
    """Accepts prompts, and has readers of some workspaces."""

    def __init__(
        self,
        loop: SimulatedLoop,
        name: str,
        ledger: Ledger,
        *,
        seed: object,
        workspaces: Sequence[str],
    ) -> None:
        super().__init__(loop, name, ledger, seed=seed)
        self.newest: dict[str, int] = {}
        self.machine.start(self._live(workspaces), name="web")

    async def accept(self, workspace_id: str, session_id: str) -> None:
        def job(tx: Transaction) -> int:
            prompt = Prompt(session_id, "Go on.")
            return accept_prompt(tx, workspace_id, prompt, kind=RunKind.PROMPT)

        self.ledger.accept(await self.write(workspace_id, job))
        await nudges.nudge_accepted()

    async def _live(self, workspaces: Sequence[str]) -> None:
        await self._begin()
        for workspace_id in workspaces:
            room = await self.hub.room(workspace_id)
            reader = NativeReader(Wire.SSE)
            self.newest[workspace_id] = room.last_number
            room.join_native(reader)
            self.machine.start(self._read(workspace_id, reader), name="reader")

    async def _read(self, workspace_id: str, reader: NativeReader) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while chunks := await reader.take():
                for chunk, _ in chunks:
                    for number in map(int, _ID.findall(chunk)):
                        if number != self.newest[workspace_id] + 1:
                            self.ledger.fail(f"a reader gets event {number} out of turn")
                        self.newest[workspace_id] = number
