"""Performs the runs of a process: claims them, takes over lost ones, and passes on cancels.

An exception of a run is caught only here: the run is settled, and the other runs continue.
``receive_nudge`` takes nudges; without any, the pool looks for work about once a second.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from agents.fleet.parent.joined import RemoteWorkers
from agents.runs.calls.outputs import CallOutputs
from agents.runs.cancel import settle_rest
from agents.runs.claims.claim_order import ClaimedPlaces
from agents.runs.claims.homes import WorkspaceHomes
from agents.runs.finish import close_session_work, rescue_run, settle_failed
from agents.runs.history.rewind import LEFT_AFTER_MS, finish_left
from agents.runs.history.rollback import finish_rollbacks
from agents.runs.lease import Lease, LeaseLost, require_lease
from agents.runs.nudges import is_meant
from agents.runs.queries import held_runs, lost_runs, released_processes
from agents.runs.reply import Checkpoints
from agents.runs.rows import Claimed
from agents.runs.setup import RunSetup, setup_of
from agents.runs.start.remote_run import StartRemote
from agents.runs.start.start_run import RunMeans, StartedRun, StartHere, StartRun
from agents.runs.steps import OfferedEnd
from agents.runs.transitions import claim_runs
from workspaces.actions.processes import RegistrationLost, forget_process, mark_lost
from workspaces.delivery.hub import Hub
from workspaces.log.database_clock import were_renewals_lost
from workspaces.log.errors import Refusal, ShuttingDown
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import WriteFunction, writer
from workspaces.measuring import Measured, measure
from workspaces.placement.roots import WorkerScope
from workspaces.queries.processes import late_processes
from workspaces.tasks import wait_for_all, wait_until_set

logger = logging.getLogger(__name__)

CLAIM_LIMIT = 50
RENEWED_AFTER_OUTAGE_SECONDS = 5.0  # by then every live process has renewed its registration
COMPARE_SECONDS = 1.0
# A process is late after three renewals that should have come. If it has left the database as
# well, its runs do not wait for the end of its registration.
LATE_SECONDS = 3.5
AT_ONCE = 20  # lost runs, chosen at random: all workers look for them
IDLE_ROUNDS = 5  # a worker without runs compares this rarely
STOPPING_SECONDS = 10.0  # of the tools of runs that are cut

FindDisconnected = Callable[[Collection[str]], Collection[str]]  # of workers; synchronous


@dataclass(frozen=True, slots=True)
class PoolSettings:
    lease_seconds: float = 15.0
    poll_seconds: float = 1.0
    max_runs: int = 500


class RunPool:
    def __init__(
        self,
        worker: str,
        *,
        hub: Hub,
        settings: PoolSettings,
        setup_of: Callable[[Claimed], Awaitable[RunSetup]] = setup_of,
        find_disconnected: FindDisconnected | None = None,
        scope: Callable[[], WorkerScope | None] = lambda: None,
        write: WriteFunction = writer.write,
        start_run: StartRun | None = None,
        works_here: bool = True,
        has_homes: bool = False,
    ) -> None:
        """``worker``: the registered process. ``setup_of`` returns the setup of a run.

        Without ``find_disconnected`` only the registrations of other workers count; without
        ``works_here`` only runs of remote workspaces. ``has_homes``: a workspace has one worker.
        """
        self.worker = worker
        self._find_disconnected = find_disconnected
        self._scope = scope
        self._write = write
        self._settings = settings
        self._late_ms = max(0, int((settings.lease_seconds - LATE_SECONDS) * 1000))
        self._unclear: set[int] = set()  # held here or in the database, and not in both
        self._unserved: set[int] = set()  # cut because the root of their folder was missing
        self._runs: dict[int, StartedRun] = {}  # by key
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ended: set[int] = set()  # runs whose end is stored, and whose task still works
        self._side: set[asyncio.Task[None]] = set()  # titles
        self._loops: list[asyncio.Task[None]] = []
        self._checkpoints = Checkpoints()
        self._outputs = CallOutputs()
        self._wake = asyncio.Event()
        self._works_here = works_here
        self.remote_workers = RemoteWorkers(on_free=self._wake.set)
        means = RunMeans(worker, hub, self._checkpoints, self._begin_side)
        here = start_run or StartHere(means, outputs=self._outputs, setup_of=setup_of)
        self._start_run: StartRun = StartRemote(here, self.remote_workers, means)
        self._draining = False
        self.homes = WorkspaceHomes(worker, scope, self._runs, write=write, is_shared=has_homes)

    def start(self) -> None:
        self._checkpoints.start()
        self._outputs.start()
        loops = {"claims": self._claim_loop(), "held runs": self._compare_loop()}
        loops["homes"] = self.homes.keep()
        if self._works_here:
            loops["rescue"] = self._rescue_loop()
        self._loops = [asyncio.create_task(loop, name=name) for name, loop in loops.items()]

    @property
    def running(self) -> int:
        return len(self._runs)

    def receive_nudge(self, message: dict[str, Any]) -> None:
        """Handles a nudge, which may be lost, duplicated or late."""
        if message["type"] == "run.cancelled":
            for run in list(self._runs.values()):
                if is_meant(run.claimed, message):
                    run.cancel()
        else:
            self._wake.set()

    def offer_end(self, workspace_id: str, session_id: str) -> OfferedEnd | None:
        """Returns the end of the session's run for a cancel, if the run is here and offers it."""
        for run in self._runs.values():
            held = run.held
            if held.session_id == session_id and held.workspace_id == workspace_id:
                return run.offer_end()
        return None

    def receive_answer(self, session_id: str, call_id: str, *, granted: bool) -> None:
        """Passes an answer on to a sub-agent's run; other runs are parked while they wait."""
        for run in self._runs.values():
            if run.held.session_id == session_id:
                run.receive_answer(call_id, granted=granted)

    def receive_end(self, key: int) -> None:
        """Handles the end of a run in any process: cancels its children; its parent may resume."""
        for run in list(self._runs.values()):
            if run.claimed.parent == key:
                run.cancel()
        if key in self._runs:
            self._ended.add(key)
        self._wake.set()

    async def drain(self, *, seconds: float, hurried: asyncio.Event | None = None) -> None:
        """Stops claiming; runs are handed over at their next step boundary.

        Returns when none is left, after ``seconds``, or when ``hurried`` is set. Meanwhile
        runs can still be cancelled.
        """
        self._draining = True
        self._wake.set()
        for run in self._runs.values():
            run.hand_over()
        leaving = asyncio.create_task(self.homes.leave())
        await wait_for_all([*self._tasks.values(), leaving], seconds=seconds, unless=hurried)

    async def stop(self) -> None:
        """Cuts the runs that ``drain`` left in the middle of a step, and releases them."""
        self._draining = True
        await self._outputs.stop()
        cut = dict(self._tasks)
        for task in (*self._side, *cut.values()):
            task.cancel()
        await asyncio.gather(*cut.values(), *self._side, return_exceptions=True)
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._checkpoints.stop()
        for key in cut:
            try:
                await self._rescue(key, "", worker=self.worker, is_planned=True)
            except Refusal as refusal:  # its registration ends, and another worker continues it
                logger.warning("a run could not be released: %s", refusal, extra={"run": key})

    async def begin_again(self, worker: str) -> None:
        """Cuts all runs, which other workers continue, and goes on as another ``worker``."""
        cut = list(self._tasks.values())
        if cut:
            logger.warning("this worker has lost its registration: others continue its runs")
        for task in cut:
            measure(Measured.LEASE_LOST)
            task.cancel()
        await wait_for_all(cut, seconds=STOPPING_SECONDS)
        self.worker = worker
        self.homes.begin_again(worker)
        self._wake.set()

    # -- claiming

    async def _claim_loop(self) -> None:
        while not self._draining:
            try:
                while await self._claim():
                    pass
            except ShuttingDown:
                return
            except RegistrationLost:
                logger.info("nothing is claimed until this process has registered again")
            except Exception:
                logger.exception("claiming failed; the next look tries again")
                await asyncio.sleep(self._settings.poll_seconds)
            await wait_until_set(self._wake, seconds=self._settings.poll_seconds)

    async def _claim(self) -> bool:
        """Claims runs; returns whether there may be more to claim at once."""
        self._wake.clear()
        limit = min(CLAIM_LIMIT, self._settings.max_runs - len(self._runs))
        here = ClaimedPlaces(self._works_here, self.remote_workers.free_places)
        if limit <= 0 or self._draining or not any(here):
            return False
        job = partial(claim_runs, worker=self.worker, limit=limit, scope=self._scope(), places=here)
        homes = self.homes.for_claim()
        claimed = await self._write("", partial(job, homes=homes))
        for run in claimed:
            self._begin(run)
        may_be_more = await self.homes.note_claim(homes, claimed) or len(claimed) == limit
        return may_be_more or any(run.path in here.remote for run in claimed)

    def _begin(self, claimed: Claimed) -> None:
        run = self._start_run(claimed)
        self._unserved.discard(claimed.key)
        self._runs[claimed.key] = run
        name = f"run-{claimed.key}"
        self._tasks[claimed.key] = asyncio.create_task(self._perform(run), name=name)

    def _begin_side(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="title")
        self._side.add(task)
        task.add_done_callback(self._side.discard)
        return task

    async def _perform(self, run: StartedRun) -> None:
        key = run.claimed.key
        log = {"workspace": run.claimed.workspace_id, "session": run.claimed.session_id, "run": key}
        logger.debug("run begins", extra=log)
        try:
            await run.perform()
        except LeaseLost:
            measure(Measured.LEASE_LOST)
            logger.info("run has ended, or is held by another worker now", extra=log)
        except ShuttingDown:
            logger.info("run is left for the next start", extra=log)
        except Exception:
            logger.exception("run failed", extra=log)
            await self._settle_failed(run.held)
        finally:
            was_full = len(self._runs) >= self._settings.max_runs
            if self._runs.get(key) is run:  # otherwise this process has claimed it again
                del self._runs[key], self._tasks[key]
            if was_full or key not in self._ended:
                # Its session's next run may be claimed. A stored end has woken the claims already.
                self._wake.set()
            self._ended.discard(key)
            logger.debug("run ends", extra=log)
        if run.is_cancelled:
            await self._finish_cancels(run.claimed)

    async def _finish_cancels(self, claimed: Claimed) -> None:
        """Ends what is cancelled behind the run, and undoes its turn if a prompt replaces it."""
        try:
            await settle_rest(claimed.workspace_id, claimed.session_id)
            await finish_rollbacks()
        except ShuttingDown:
            pass
        except Exception:
            logger.exception("a rollback failed; the next look tries again")

    async def _settle_failed(self, held: Lease) -> None:
        def job(tx: Transaction) -> None:
            run = require_lease(tx, held)
            settle_failed(tx, run, "internal error: the server's log has the details")
            close_session_work(tx, run.workspace_id, run.session_id)

        try:
            await self._write(held.workspace_id, job)
        except LeaseLost:
            pass
        except Exception:
            logger.exception("a failed run could not be settled; it is tried once more")

    # -- what is held

    async def _compare_loop(self) -> None:
        rounds = 0
        while True:
            await asyncio.sleep(COMPARE_SECONDS)
            rounds += 1
            if not self._runs and not self._unclear and rounds % IDLE_ROUNDS:
                continue
            try:
                await self._compare_held()
            except ShuttingDown:
                return
            except Exception:
                logger.exception("held runs could not be compared; the next round tries again")

    async def _compare_held(self) -> None:
        """Compares the runs that are performed here with those that the database has for us.

        Cancels those that were cancelled: nudges may be lost. Cuts those that another worker holds
        now, and releases those that are not performed here, for example after a claim whose commit
        was in doubt. A difference counts only if the round before has found it, too: a run that
        has just been claimed, parked or ended shows one for a moment.
        """
        self._cut_unserved()
        here = {key: run.held.fence for key, run in self._runs.items()}
        worker = self.worker
        stored = {}
        for key, fence, is_cancelled in await read(held_runs, worker):
            stored[key] = fence
            run = self._runs.get(key)
            if is_cancelled and run is not None and run.held.fence == fence:
                run.cancel()
        unclear = {key for key in here.keys() | stored.keys() if here.get(key) != stored.get(key)}
        before, self._unclear = self._unclear, unclear
        for key in unclear & before:
            run, task = self._runs.get(key), self._tasks.get(key)
            if run is None or task is None:
                if key in stored and worker == self.worker:
                    is_planned = key in self._unserved  # the run did not stop its worker
                    await self._rescue(key, "", worker=worker, is_planned=is_planned)
            elif run.held.fence == here.get(key):
                measure(Measured.LEASE_LOST)
                logger.warning("run is held by another worker now", extra={"run": key})
                task.cancel()

    def _cut_unserved(self) -> None:
        """Cuts the runs below roots that are no longer found: tools would write somewhere else."""
        scope = self._scope()
        for key, run in self._runs.items():
            if scope is not None and not scope.serves(run.claimed.path):
                logger.warning("run is cut: the root of its folder is missing", extra={"run": key})
                self._unserved.add(key)
                self._tasks[key].cancel()

    # -- what others have lost

    async def _rescue_loop(self) -> None:
        while not self._draining:
            try:
                await self._end_late_registrations()
                while await self._rescue_some():
                    pass
                for process_id in await read(released_processes):
                    await self._write("", partial(forget_process, process_id=process_id))
                await finish_rollbacks()
                await finish_left(begun_before=now_ms() - LEFT_AFTER_MS)
            except ShuttingDown:
                return
            except Exception:
                logger.exception("looking for lost runs failed; the next round tries again")
            await asyncio.sleep(self._settings.poll_seconds)

    async def _rescue_some(self) -> bool:
        """Rescues some lost runs, others than other workers; returns whether it has rescued any."""
        lost = [run for run in await read(lost_runs, now_ms()) if run.key not in self._runs]
        some = random.sample(lost, 0 if self._are_renewals_lost() else min(len(lost), AT_ONCE))
        rescues = (self._rescue(run.key, run.workspace_id, worker=run.worker) for run in some)
        return any(await asyncio.gather(*rescues))

    async def _end_late_registrations(self) -> None:
        """Ends registrations that have expired, or are late while their process is disconnected."""
        now = now_ms()
        late = await read(lambda: late_processes(now + self._late_ms, apart_from=self.worker))
        if not late or self._are_renewals_lost():
            return
        find = self._find_disconnected or frozenset().intersection
        gone = await read(find, {process.id for process in late})
        for process in late:
            if process.expires_at < now or process.id in gone:
                marks = partial(mark_lost, process_id=process.id, renewed_until=process.expires_at)
                await self._write("", marks)

    def _are_renewals_lost(self) -> bool:
        return were_renewals_lost(min(self._settings.lease_seconds, RENEWED_AFTER_OUTAGE_SECONDS))

    async def _rescue(
        self, key: int, workspace_id: str, *, worker: str, is_planned: bool = False
    ) -> bool:
        rescue = partial(rescue_run, key=key, worker=worker, is_planned=is_planned)
        if outcome := await self._write(workspace_id, rescue):
            measure(Measured.RESCUE)
            logger.info("a run whose worker stopped: %s", outcome, extra={"run": key})
            self._wake.set()
        return bool(outcome)
