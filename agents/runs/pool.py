"""Performs the runs of a process: claims them, renews their leases, and passes on cancels.

An exception of a run is caught only here: the run is settled, and the other runs continue.
``receive_nudge`` takes nudges; without any, the pool looks for work about once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from channels.consumer import AsyncConsumer

from agents.runs.calls.outputs import CallOutputs
from agents.runs.cancel import settle_rest
from agents.runs.finish import close_session_work, rescue_run, settle_failed
from agents.runs.history.rewind import LEFT_AFTER_MS, finish_left
from agents.runs.history.rollback import finish_rollbacks
from agents.runs.lease import Lease, LeaseLost, require_lease
from agents.runs.queries import cancelled_running, expired_runs, late_runs, overtaken_runs
from agents.runs.reply import Checkpoints
from agents.runs.rows import Claimed
from agents.runs.setup import RunSetup, setup_of
from agents.runs.start.start_run import StartedRun, StartHere, StartRun
from agents.runs.steps import OfferedEnd
from agents.runs.transitions import claim_runs, renew_leases
from workspaces.delivery.hub import Hub
from workspaces.log.database_clock import were_renewals_lost
from workspaces.log.errors import Refusal, ShuttingDown
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.measuring import Measured, measure
from workspaces.tasks import wait_for_all, wait_until_set

logger = logging.getLogger(__name__)

CLAIM_LIMIT = 50
RENEWED_AFTER_OUTAGE_SECONDS = 5.0  # by then every live worker has renewed its leases
RENEWAL_SECONDS = 1.0
# A worker is late after three renewals that should have come. If it has left the database as
# well, its runs do not wait for the end of their leases.
LATE_SECONDS = 3.5 * RENEWAL_SECONDS

# Returns those of these workers that have left the database. Synchronous.
FindDisconnected = Callable[[Collection[str]], Collection[str]]


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
    ) -> None:
        """``setup_of`` returns the setup of a run.

        Without ``find_disconnected`` only the leases of other workers count.
        """
        self.worker = worker
        self._find_disconnected = find_disconnected
        self._settings = settings
        self._lease_ms = int(settings.lease_seconds * 1000)
        self._late_ms = max(0, self._lease_ms - int(LATE_SECONDS * 1000))
        self._overtaken: set[int] = set()
        self._runs: dict[int, StartedRun] = {}  # by key
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ended: set[int] = set()  # runs whose end is stored, and whose task still works
        self._side: set[asyncio.Task[None]] = set()  # titles
        self._loops: list[asyncio.Task[None]] = []
        self._checkpoints = Checkpoints()
        self._outputs = CallOutputs()
        self._start_run: StartRun = StartHere(
            worker,
            hub=hub,
            checkpoints=self._checkpoints,
            outputs=self._outputs,
            setup_of=setup_of,
            side=self._begin_side,
        )
        self._wake = asyncio.Event()
        self._draining = False

    def start(self) -> None:
        self._checkpoints.start()
        self._outputs.start()
        self._loops = [
            asyncio.create_task(self._claim_loop(), name="claims"),
            asyncio.create_task(self._lease_loop(), name="leases"),
            asyncio.create_task(self._rescue_loop(), name="rescue"),
        ]

    @property
    def running(self) -> int:
        return len(self._runs)

    def receive_nudge(self, message: dict[str, Any]) -> None:
        """Handles a nudge, which may be lost, duplicated or late."""
        if message["type"] == "run.cancelled":
            for run in list(self._runs.values()):
                if _is_meant(run.claimed, message):
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
        runs can still be cancelled, and leases are renewed.
        """
        self._draining = True
        self._wake.set()
        for run in self._runs.values():
            run.hand_over()
        await wait_for_all(self._tasks.values(), seconds=seconds, unless=hurried)

    async def stop(self) -> None:
        """Cuts the runs that ``drain`` left in the middle of a step, and releases them."""
        self._draining = True
        for task in self._side:
            task.cancel()
        await self._outputs.stop()
        cut = dict(self._tasks)
        for task in cut.values():
            task.cancel()
        await asyncio.gather(*cut.values(), *self._side, return_exceptions=True)
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._checkpoints.stop()
        for key in cut:
            try:
                await self._rescue(
                    key, "", expired_before=now_ms() + 10 * self._lease_ms, is_planned=True
                )
            except Refusal as refusal:  # its lease expires, and another worker continues it
                logger.warning("a run could not be released: %s", refusal, extra={"run": key})

    # -- claiming

    async def _claim_loop(self) -> None:
        while not self._draining:
            try:
                while await self._claim():
                    pass
            except ShuttingDown:
                return
            except Exception:
                logger.exception("claiming failed; the next look tries again")
                await asyncio.sleep(self._settings.poll_seconds)
            await wait_until_set(self._wake, seconds=self._settings.poll_seconds)

    async def _claim(self) -> bool:
        """Claims runs; returns whether there may be more to claim at once."""
        self._wake.clear()
        limit = min(CLAIM_LIMIT, self._settings.max_runs - len(self._runs))
        if limit <= 0 or self._draining:
            return False
        claimed = await writer.write(
            "",
            lambda tx: claim_runs(tx, worker=self.worker, lease_ms=self._lease_ms, limit=limit),
        )
        for run in claimed:
            self._begin(run)
        return len(claimed) == limit

    def _begin(self, claimed: Claimed) -> None:
        run = self._start_run(claimed)
        self._runs[claimed.key] = run
        self._tasks[claimed.key] = asyncio.create_task(
            self._perform(run), name=f"run-{claimed.key}"
        )

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
            await writer.write(held.workspace_id, job)
        except LeaseLost:
            pass
        except Exception:
            logger.exception("a failed run could not be settled; its lease will run out")

    # -- leases

    async def _lease_loop(self) -> None:
        while True:
            await asyncio.sleep(min(self._settings.lease_seconds / 3, RENEWAL_SECONDS))
            if not self._runs:
                continue
            try:
                await writer.write(
                    "", lambda tx: renew_leases(tx, worker=self.worker, lease_ms=self._lease_ms)
                )
                for key, fence in await read(cancelled_running, self.worker):
                    run = self._runs.get(key)
                    if run is not None and run.held.fence == fence:
                        run.cancel()
                await self._cut_overtaken()
            except ShuttingDown:
                return
            except Exception:
                logger.exception("leases could not be renewed; the next round tries again")

    async def _cut_overtaken(self) -> None:
        """Cuts the runs that another worker holds now: their models and tools stop.

        Only those that were overtaken in the round before as well: a run that has just ended or
        parked here may be claimed again before its task is over.
        """
        held = {key: run.held.fence for key, run in self._runs.items()}
        before, self._overtaken = self._overtaken, await read(overtaken_runs, held)
        for key in self._overtaken & before:
            run, task = self._runs.get(key), self._tasks.get(key)
            if run is not None and task is not None and run.held.fence == held[key]:
                measure(Measured.LEASE_LOST)
                logger.warning("run is held by another worker now", extra={"run": key})
                task.cancel()

    async def _rescue_loop(self) -> None:
        while not self._draining:
            try:
                for key, workspace_id in await read(expired_runs, now_ms()):
                    if self._may_rescue(key):
                        await self._rescue(key, workspace_id, expired_before=now_ms())
                await self._rescue_disconnected()
                await finish_rollbacks()
                await finish_left(begun_before=now_ms() - LEFT_AFTER_MS)
            except ShuttingDown:
                return
            except Exception:
                logger.exception("looking for lost runs failed; the next round tries again")
            await asyncio.sleep(self._settings.poll_seconds)

    async def _rescue_disconnected(self) -> None:
        """Rescues the runs of workers that are late and have left the database."""
        if self._find_disconnected is None:
            return
        now = now_ms()
        late = await read(late_runs, now, now + self._late_ms)
        if not late:
            return
        gone = await read(self._find_disconnected, {run.worker for run in late})
        for run in late:
            if run.worker in gone and self._may_rescue(run.key):
                await self._rescue(
                    run.key, run.workspace_id, expired_before=now_ms() + self._late_ms
                )

    def _may_rescue(self, key: int) -> bool:
        """Whether the run may be rescued: this process does not hold it, and its worker is late."""
        grace = min(self._settings.lease_seconds, RENEWED_AFTER_OUTAGE_SECONDS)
        return key not in self._runs and not were_renewals_lost(grace)

    async def _rescue(
        self, key: int, workspace_id: str, *, expired_before: int, is_planned: bool = False
    ) -> None:
        outcome = await writer.write(
            workspace_id,
            lambda tx: rescue_run(tx, key, expired_before=expired_before, is_planned=is_planned),
        )
        if outcome:
            measure(Measured.RESCUE)
            logger.info("a run whose worker stopped: %s", outcome, extra={"run": key})
            self._wake.set()


def _is_meant(claimed: Claimed, message: Mapping[str, Any]) -> bool:
    """Whether this nudge cancels the run: by its key, or up to a number of its session."""
    if "keys" in message:
        return claimed.key in message["keys"]
    is_there = claimed.session_id == message["session_id"]
    return bool(is_there and claimed.accept_number <= message["up_to"])


class NudgeConsumer(AsyncConsumer):
    def __init__(self, *, pool: RunPool) -> None:
        self.pool = pool

    async def run_accepted(self, message: dict[str, Any]) -> None:
        self.pool.receive_nudge(message)

    async def run_cancelled(self, message: dict[str, Any]) -> None:
        self.pool.receive_nudge(message)
