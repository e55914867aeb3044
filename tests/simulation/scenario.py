"""One simulation: accepts runs, disturbs machines and the network, and checks what comes of it."""

from __future__ import annotations

import asyncio
import contextvars
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest import mock

from channels.layers import get_channel_layer
from django.conf import settings
from django.test import override_settings

from agents.models import Run
from agents.runs.pool import LATE_SECONDS
from agents.states import RunState
from tests.simulation.hosts import WebHost, WorkerHost
from tests.simulation.ledger import Ledger
from tests.simulation.network import SIMULATED_LAYER, SimulatedLayer, Weather
from tests.simulation.virtual_time import SimulatedLoop, SimulatedTime
from workspaces.actions.sessions import create_session
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.log.commits import run_alone
from workspaces.log.outage import outage
from workspaces.models import ClientClaim, RegisteredProcess, Workspace

LOOK_SECONDS = 0.25
WEBS = 3
READ = 20  # workspaces with readers, in each web process
SESSIONS = 20  # of one workspace; each has one run, and one in ten has a second
# A dead process has no connections to PostgreSQL. That it is late is seen with the next round of
# others, whose writes then take their turns.
SLACK_SECONDS = 4.0
SETTLING_SECONDS = 25.0  # after the last run: the registrations of lost processes end
LONGEST_ABSENCE = 40.0
LIMIT_SECONDS = 3600.0


@dataclass(frozen=True)
class Plan:
    hosts: int = 5
    runs: int = 200
    seed: int = 1
    places: int = 0  # of each worker; 0: a quarter more than its share of the runs
    steps: int = 4  # of each run
    pauses: tuple[float, float] = (2.0, 8.0)  # before each step, in seconds
    arrival_seconds: float = 10.0
    fault_seconds: float = 3.0  # the mean time between two faults
    faults: bool = True
    weather: Weather = field(default_factory=Weather)

    @property
    def places_each(self) -> int:
        return self.places or max(4, -(-self.runs * 5 // (self.hosts * 4)))


@dataclass(frozen=True)
class Report:
    broken: list[str]
    digest: str
    simulated_seconds: float
    real_seconds: float
    longest_wait: float
    most_running: int
    claims: int
    writes: int
    fenced_off: int
    faults: dict[str, int]
    continued: dict[str, tuple[int, float]]  # how a worker was lost: its runs, the longest time
    messages: tuple[int, int]  # sent, lost
    jobs: dict[str, int]


def simulate(plan: Plan, *, report: Callable[[str], None] = lambda _: None) -> Report:
    """Runs a simulation on the empty database that Django is connected to."""
    began = time.monotonic()
    random.seed(plan.seed)  # back-offs and rescues draw from it
    outage.forget()  # its end is a moment of the real clock
    loop = SimulatedLoop()
    loop.set_exception_handler(lambda _loop, _context: None)
    # Django refuses statements in a thread with a running loop: here they are meant to hold it up.
    unsafe = mock.patch.dict(os.environ, DJANGO_ALLOW_ASYNC_UNSAFE="1")
    with override_settings(CHANNEL_LAYERS=SIMULATED_LAYER), SimulatedTime(loop), unsafe:
        world = World(loop, plan, report)
        context = contextvars.copy_context()
        try:
            loop.run_until_complete(loop.create_task(world.live(), context=context))
        finally:
            world.end()
            loop.run_until_complete(loop.create_task(loop.end_statements(), context=context))
            loop.close()
    return world.result(time.monotonic() - began)


class World:
    def __init__(self, loop: SimulatedLoop, plan: Plan, report: Callable[[str], None]) -> None:
        layer = get_channel_layer()
        assert isinstance(layer, SimulatedLayer)
        self.layer = layer
        layer.weather, layer.random = plan.weather, Random(f"{plan.seed}/layer")
        self._loop, self._plan, self._report = loop, plan, report
        self._random = Random(f"{plan.seed}/world")
        self.ledger = Ledger(loop)
        self._workers: list[WorkerHost] = []
        self._leaving: list[asyncio.Task[None]] = []
        self._webs: list[WebHost] = []
        self._made = 0
        self._faults: Counter[str] = Counter()

    async def live(self) -> None:
        prompts = self._prompts()
        for _ in range(self._plan.hosts):
            self._add_worker()
        read = sorted({workspace_id for workspace_id, _ in prompts}, key=self._paths.get)[:READ]
        for number in range(WEBS):
            name = f"web-{number}"
            web = WebHost(self._loop, name, self.ledger, seed=self._plan.seed, workspaces=read)
            self._webs.append(web)
        await asyncio.sleep(3.0)
        accepting = asyncio.gather(*(self._accept(*prompt) for prompt in prompts))
        disturbing = asyncio.create_task(self._disturb())
        looking = asyncio.create_task(self._look(len(prompts)))
        await accepting
        while not looking.done() and self._loop.time() < LIMIT_SECONDS:
            await asyncio.sleep(1.0)
        disturbing.cancel()
        await self._settle()

    def result(self, real_seconds: float) -> Report:
        ledger = self.ledger
        jobs: Counter[str] = Counter()
        for host in (*self._workers, *self._webs):
            jobs.update(host.write.jobs)
        return Report(
            broken=ledger.broken,
            digest=ledger.digest,
            simulated_seconds=self._loop.time(),
            real_seconds=real_seconds,
            longest_wait=ledger.longest_wait,
            most_running=ledger.most_running,
            claims=ledger.claims,
            writes=ledger.writes,
            fenced_off=ledger.fenced_off,
            faults=dict(self._faults),
            continued={how: (len(t), max(t)) for how, t in sorted(ledger.continued.items())},
            messages=(self.layer.sent, self.layer.lost),
            jobs=dict(jobs.most_common()),
        )

    def end(self) -> None:
        """Cancels all tasks, also of machines that are dead or frozen."""
        self._loop.is_ending = True
        for host in (*self._workers, *self._webs):
            host.machine._thaw()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=60))

    # -- what is there

    def _prompts(self) -> list[tuple[str, str]]:
        """Makes workspaces and sessions; returns the workspace and the session of each prompt."""
        self._paths: dict[str, str] = {}
        sessions: list[tuple[str, str]] = []
        singles = -(-self._plan.runs * 10 // 11)
        for start in range(0, singles, SESSIONS):
            path = f"/simulated/{start:06}"
            workspace = run_alone("", lambda tx, path=path: open_workspace(tx, Opening(path, "")))[
                0
            ]
            self._paths[workspace.pk] = path
            ClientClaim.objects.create(workspace_id=workspace.pk, client_id="c", expires_at=10**15)
            for _ in range(min(SESSIONS, singles - start)):
                made, _ = run_alone(
                    workspace.pk, lambda tx, w=workspace.pk: create_session(tx, w, title="t")
                )
                sessions.append((workspace.pk, made["id"]))
        return sessions + sessions[: self._plan.runs - singles]

    def _add_worker(self) -> None:
        self._made += 1
        worker = WorkerHost(
            self._loop,
            f"host-{self._made:03}",
            self.ledger,
            seed=self._plan.seed,
            places=self._plan.places_each,
            steps=(self._plan.steps, self._plan.pauses),
            lease_seconds=settings.CRUSH_LEASE_SECONDS,
            find_disconnected=self._disconnected,
        )
        self._workers.append(worker)

    def _disconnected(self, ids: Collection[str]) -> list[str]:
        """Processes that have died have no connections; what is frozen or cut off keeps them."""
        dead = {w.pool.worker for w in self._workers if w.machine.is_dead}
        return [process_id for process_id in ids if process_id in dead]

    async def _accept(self, workspace_id: str, session_id: str) -> None:
        await asyncio.sleep(self._random.uniform(0, self._plan.arrival_seconds))
        await self._random.choice(self._webs).accept(workspace_id, session_id)

    # -- what goes wrong

    async def _disturb(self) -> None:
        kinds = [self._kill, self._freeze, self._cut, self._set_clock, self._restart, self._silence]
        while self._plan.faults:
            await asyncio.sleep(self._random.expovariate(1 / self._plan.fault_seconds))
            well = [w for w in self._workers if w.machine.is_well and not w.is_draining]
            if len(well) > 2 * self._plan.hosts // 3:
                kind = self._random.choice(kinds)
                self._faults[kind.__name__.removeprefix("_")] += 1
                self.ledger.note(kind.__name__)
                kind(self._random.choice(well))

    def _kill(self, worker: WorkerHost) -> None:
        worker.machine.is_dead = True
        self.ledger.lose(worker.pool.worker, "killed", limit=LATE_SECONDS + 1 + SLACK_SECONDS)
        self._later(self._random.uniform(1, 15), self._add_worker)

    def _freeze(self, worker: WorkerHost) -> None:
        self._away(worker, worker.machine.freeze, "frozen")

    def _cut(self, worker: WorkerHost) -> None:
        self._away(worker, worker.machine.cut, "cut off from the database")

    def _away(self, worker: WorkerHost, stop: Callable[[float], None], how: str) -> None:
        seconds = self._random.choice(
            [self._random.uniform(0.5, 5), self._random.uniform(10, LONGEST_ABSENCE)]
        )
        limit = settings.CRUSH_LEASE_SECONDS + 1 + SLACK_SECONDS
        stop(seconds)
        self.ledger.lose(worker.pool.worker, how, limit=limit)
        self._later(seconds, self.ledger.find, worker.pool.worker)

    def _set_clock(self, worker: WorkerHost) -> None:
        worker.machine.wall_error = self._random.choice([-1, 1]) * self._random.uniform(1, 86_400)

    def _restart(self, worker: WorkerHost) -> None:
        worker.is_draining = True
        self._leaving.append(worker.machine.start(worker.leave(), name="leaving"))
        self._later(self._random.uniform(1, 15), self._add_worker)

    def _silence(self, _worker: WorkerHost) -> None:
        self.layer.down_until = self._loop.time() + self._random.uniform(1, 10)

    def _later(self, seconds: float, work: Callable[..., object], *args: Any) -> None:
        self._loop.call_later(seconds, work, *args, context=contextvars.Context())

    # -- what must hold

    async def _look(self, count: int) -> None:
        rounds = 0
        while len(self.ledger.finished) < count:
            await asyncio.sleep(LOOK_SECONDS)
            self.ledger.look(self._free_places())
            rounds += 1
            if not rounds % 40:
                self._report(
                    f"{self._loop.time():.0f} s: {len(self.ledger.accepted)} accepted,"
                    f" {len(self.ledger.finished)} finished, {self.ledger.claims} claims,"
                    f" {sum(self._faults.values())} faults, {len(self.ledger.broken)} broken"
                )

    def _free_places(self) -> int:
        """Free places of workers that have been well for a while, and so are registered."""
        ids = self._registered()
        return sum(
            worker.places - worker.pool.running
            for worker in self._workers
            if worker.machine.is_well
            and not worker.is_draining
            and self._loop.time() - worker.machine.healthy_since > 3.0
            and worker.pool.worker in ids
        )

    async def _settle(self) -> None:
        until = self._loop.time() + LONGEST_ABSENCE + SETTLING_SECONDS
        while self._loop.time() < until and not self._is_settled():
            await asyncio.sleep(1.0)
        fail = self.ledger.fail
        left = Run.objects.exclude(state=RunState.FINISHED).count()
        if left:
            fail(f"{left} runs have not ended")
        for key in self.ledger.accepted:
            if self.ledger.finished[key] != 1:
                fail(f"run {key} has ended {self.ledger.finished[key]} times")
        alive, registered = self._alive(), self._registered()
        if alive != registered:
            fail(f"registered and not alive: {sorted(registered - alive)}")
            fail(f"alive and not registered: {sorted(alive - registered)}")
        for newest, head in self._behind():
            fail(f"a reader has event {newest} of {head}")

    def _is_settled(self) -> bool:
        is_well = all(w.machine.is_well for w in self._workers if not w.machine.is_dead)
        return is_well and self._alive() == self._registered() and not self._behind()

    def _alive(self) -> set[str]:
        return {w.pool.worker for w in self._workers if not w.machine.is_dead}

    def _registered(self) -> set[str]:
        return set(RegisteredProcess.objects.values_list("pk", flat=True))

    def _behind(self) -> list[tuple[int, int]]:
        heads = dict(Workspace.objects.values_list("pk", "last_event"))
        read = [(number, heads[w]) for web in self._webs for w, number in web.newest.items()]
        return [(number, head) for number, head in read if number != head]
