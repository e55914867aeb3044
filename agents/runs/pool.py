"""All the runs of a process: claims them, renews their leases, passes on cancels.

A run that raises is caught here alone: it is settled, and the other runs continue. ``hear`` takes
nudges; without any, the pool looks for work about once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from channels.consumer import AsyncConsumer

from agents.models import RunKind
from agents.runs import claim
from agents.runs.children.child_run import FleetRun
from agents.runs.claim import claim_runs, renew_leases
from agents.runs.finish import close_session_work, settle_failed
from agents.runs.lease import Lease, LeaseLost, require_lease
from agents.runs.reply import Checkpoints
from agents.runs.rescue import rescue_run
from agents.runs.rows import Claimed
from agents.runs.run import RunTask
from agents.runs.setup import RunSetup, brief_of
from workspaces.delivery.hub import Hub
from workspaces.log.errors import Refusal, ShuttingDown
from workspaces.log.outage import outage
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.tasks import wait_for_all, wait_until_set

logger = logging.getLogger(__name__)

CLAIM_LIMIT = 50
RENEWED_AFTER_OUTAGE_SECONDS = 5.0  # by then every worker that lives has renewed its leases


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
        brief_of: Callable[[Claimed], Awaitable[RunSetup]] = brief_of,
    ) -> None:
        """``brief_of``: where a run gets its model, prompt and tools from."""
        self.worker = worker
        self._brief_of = brief_of
        self._hub = hub
        self._settings = settings
        self._lease_ms = int(settings.lease_seconds * 1000)
        self._runs: dict[int, RunTask | FleetRun] = {}  # by key
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._side: set[asyncio.Task[None]] = set()  # titles
        self._loops: list[asyncio.Task[None]] = []
        self._checkpoints = Checkpoints()
        self._wake = asyncio.Event()
        self._draining = False

    def start(self) -> None:
        self._checkpoints.start()
        self._loops = [
            asyncio.create_task(self._claim_loop(), name="claims"),
            asyncio.create_task(self._lease_loop(), name="leases"),
            asyncio.create_task(self._rescue_loop(), name="rescue"),
        ]

    @property
    def running(self) -> int:
        return len(self._runs)

    def hear(self, message: dict[str, Any]) -> None:
        """A nudge. It may be lost, doubled or late."""
        if message["type"] == "run.cancelled":
            for run in list(self._runs.values()):
                if _is_meant(run.claimed, message):
                    run.cancel()
        else:
            self._wake.set()

    def hear_answer(self, session_id: str, call_id: str, *, granted: bool) -> None:
        """A sub-agent waits for it in its process; other runs are parked meanwhile."""
        for run in self._runs.values():
            if isinstance(run, FleetRun) and run.claimed.session_id == session_id:
                run.hear_answer(call_id, granted=granted)

    def hear_end(self, key: int) -> None:
        """A run has ended, here or elsewhere: what it sent for is cancelled, who sent for it
        may go on."""
        for run in list(self._runs.values()):
            if run.claimed.parent == key:
                run.cancel()
        self._wake.set()

    async def drain(self, *, seconds: float, hurried: asyncio.Event | None = None) -> None:
        """Stops claiming; runs are handed over at their next step boundary.

        Returns when none is left, after ``seconds``, or when ``hurried`` is set. Cancels are
        still obeyed and leases renewed.
        """
        self._draining = True
        self._wake.set()
        for run in self._runs.values():
            run.hand_over()
        await wait_for_all(self._tasks.values(), seconds=seconds, unless=hurried)

    async def stop(self) -> None:
        """After ``drain``: what is still in the middle of a step is cut and settled."""
        self._draining = True
        for task in self._side:
            task.cancel()
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
                await self._rescue(key, "", expired_before=now_ms() + 10 * self._lease_ms)
            except Refusal as refusal:  # its lease runs out, and another worker settles it
                logger.warning("a run could not be settled: %s", refusal, extra={"run": key})

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
        """Whether it may be worth to look again at once."""
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
        run: RunTask | FleetRun
        if claimed.kind == RunKind.FLEET:
            run = FleetRun(
                claimed, hub=self._hub, checkpoints=self._checkpoints, server_mark=self.worker
            )
        else:
            run = RunTask(
                claimed,
                hub=self._hub,
                checkpoints=self._checkpoints,
                server_mark=self.worker,
                brief_of=self._brief_of,
                side=self._begin_side,
            )
        self._runs[claimed.key] = run
        self._tasks[claimed.key] = asyncio.create_task(
            self._perform(run), name=f"run-{claimed.key}"
        )

    def _begin_side(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="title")
        self._side.add(task)
        task.add_done_callback(self._side.discard)
        return task

    async def _perform(self, run: RunTask | FleetRun) -> None:
        key = run.claimed.key
        log = {"workspace": run.claimed.workspace_id, "session": run.claimed.session_id, "run": key}
        logger.debug("run begins", extra=log)
        try:
            await run.perform()
        except LeaseLost:
            logger.info("run has ended, or is held by another worker now", extra=log)
        except ShuttingDown:
            logger.info("run is left for the next start", extra=log)
        except Exception:
            logger.exception("run failed", extra=log)
            await self._settle_failed(run.held)
        finally:
            self._runs.pop(key, None)
            self._tasks.pop(key, None)
            self._wake.set()  # its session's next run may be claimed
            logger.debug("run ends", extra=log)

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
            await asyncio.sleep(min(self._settings.lease_seconds / 3, 1.0))
            if not self._runs:
                continue
            try:
                await writer.write(
                    "", lambda tx: renew_leases(tx, worker=self.worker, lease_ms=self._lease_ms)
                )
                for key, fence in await read(claim.cancelled_running, self.worker):
                    run = self._runs.get(key)
                    if run is not None and run.held.fence == fence:
                        run.cancel()
            except ShuttingDown:
                return
            except Exception:
                logger.exception("leases could not be renewed; the next round tries again")

    async def _rescue_loop(self) -> None:
        while not self._draining:
            try:
                for key, workspace_id in await read(claim.expired_runs, now_ms()):
                    if self._may_rescue(key):
                        await self._rescue(key, workspace_id, expired_before=now_ms())
            except ShuttingDown:
                return
            except Exception:
                logger.exception("looking for lost runs failed; the next round tries again")
            await asyncio.sleep(self._settings.poll_seconds)

    def _may_rescue(self, key: int) -> bool:
        """Not what is being worked on right here, and nothing while workers that live may not
        have renewed their leases yet, because the database was away."""
        grace = min(self._settings.lease_seconds, RENEWED_AFTER_OUTAGE_SECONDS)
        return key not in self._runs and not outage.is_recent(grace)

    async def _rescue(self, key: int, workspace_id: str, *, expired_before: int) -> None:
        outcome = await writer.write(
            workspace_id, lambda tx: rescue_run(tx, key, expired_before=expired_before)
        )
        if outcome:
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
        self.pool.hear(message)

    async def run_cancelled(self, message: dict[str, Any]) -> None:
        self.pool.hear(message)
