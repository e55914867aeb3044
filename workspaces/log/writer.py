"""The one writer of a process: collects jobs, commits them together, publishes their events.

It is a thread with its own connection. Jobs that arrive during a commit form the next batch; there
is no timer. A job is a function of a ``Transaction`` and must be repeatable: when one job of a
batch fails, the batch is rolled back and its halves run again, down to the failing job, so that
only that one fails.

Locked rows, an unreachable database and a full disk do not fail a job: it is retried until its
deadline (``wait_at_most``).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
import time
from collections.abc import Hashable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from django.db import DatabaseError, Error, connection

from workspaces.log.blocked_writes import Blocked, BlockedWrites, CommitDoubt, QueuedWrite
from workspaces.log.commits import (
    BEFORE_ALL_JOBS,
    RETRIES,
    CommitAttempt,
    Fate,
    Job,
    commit,
    look_up_fate,
    run_alone,
)
from workspaces.log.deadlines import REQUEST_SECONDS, deadline
from workspaces.log.errors import (
    DatabaseUnreachable,
    OutcomeUnknown,
    Overtaken,
    Refusal,
    ShuttingDown,
)
from workspaces.log.failures import REFUSALS, DatabaseFailure, failure_of
from workspaces.log.outage import outage
from workspaces.log.write_answers import (
    HANGS_SECONDS,
    Answers,
    Publish,
    WaitingRequests,
    answer_error,
    as_exception,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

BATCH_LIMIT = 256
# Lock timeout of a retry: short, because other jobs wait for the writer meanwhile. Each retry of one
# workspace waits twice as long: among processes that keep it busy, only who waits gets the lock.
PROBE_LOCK_MS = 20
LONGEST_PROBE_MS = 320
# After so many lost connections a job is tried alone, then refused.
LOSSES_ALONE, LOSSES_LIMIT = 5, 10
STOPPING_SECONDS = 2.0  # for writes that are blocked when the writer is stopped


class WriteFunction(Protocol):
    """Runs a job in a transaction and returns its value after the commit, as ``Writer.write``."""

    async def __call__(self, workspace_id: str, job: Job[T], /) -> T: ...


class Writer:
    def __init__(self, *, hangs_seconds: float = HANGS_SECONDS) -> None:
        self._queue: queue.SimpleQueue[QueuedWrite[Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._answers = Answers(None, None)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._gate = threading.Lock()  # no write is queued behind the mark that ends the thread
        self._requests = WaitingRequests(self._gate, hangs_seconds=hangs_seconds)
        # Used by the thread only:
        self._blocked: BlockedWrites = BlockedWrites()
        self._doubt: CommitDoubt | None = None

    def start(
        self, *, publish: Publish | None = None, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        """Starts the thread; ``publish`` gets each commit's events in ``loop``, in log order."""
        if self._thread is not None:
            raise RuntimeError("the writer runs already")
        self._answers, self._loop = Answers(publish, loop), loop
        self._requests.begin(loop)
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and not self._closed

    def stop(self) -> None:
        """Commits the queued writes, then ends the thread. May be called twice.

        Writes that are still blocked after ``STOPPING_SECONDS`` are refused.
        """
        with self._gate:
            thread = self._thread
            if thread is None:
                return
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        thread.join()
        self._thread = None

    async def write(self, workspace_id: str, job: Job[T], *, is_answered_first: bool = False) -> T:
        """Runs the job and returns its value after the commit.

        ``is_answered_first``: the caller continues before the events are published.
        The job runs even if the caller is cancelled meanwhile. Raises
        ``DatabaseUnreachable``, ``DatabaseLocked`` or ``StorageFull`` at the caller's deadline.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        write = QueuedWrite(
            workspace_id, job, loop, answer, deadline(), is_answered_first=is_answered_first
        )
        if not self._enqueue(write):
            raise ShuttingDown
        if write.until is None or loop is not self._loop:
            return await answer
        self._requests.add(write)
        try:
            return await answer
        finally:
            self._requests.discard(write)

    def write_and_wait(self, workspace_id: str, job: Job[T]) -> T:
        """Like ``write``, for threads; without a running writer the job runs in this thread."""
        answer: Future[T] = Future()
        until = deadline() or time.monotonic() + REQUEST_SECONDS
        if not self._enqueue(QueuedWrite(workspace_id, job, None, answer, until)):
            return run_alone(workspace_id, job)[0]
        return answer.result()

    def _enqueue(self, write: QueuedWrite[Any]) -> bool:
        with self._gate:
            if not self.is_running:
                return False
            self._queue.put(write)
            return True

    # -- the thread

    def _work(self) -> None:
        try:
            is_ended = False
            while not is_ended:
                fresh, is_ended = self._gather()
                self._settle(fresh)
                self._try_blocked()
            self._end_blocked()
        finally:
            connection.close()

    def _gather(self) -> tuple[list[QueuedWrite[Any]], bool]:
        """Returns the next batch; waits for it no longer than until a blocked write is due."""
        batch: list[QueuedWrite[Any]] = []
        timeout = self._blocked.seconds_until_due() if self._blocked else None
        try:
            write = self._queue.get(timeout=timeout)
            while write is not None:
                batch.append(write)
                if len(batch) == BATCH_LIMIT:
                    return batch, False
                write = self._queue.get_nowait()
        except queue.Empty:
            return batch, False
        return batch, True

    def _settle(self, batch: list[QueuedWrite[Any]], *, lock_timeout_ms: int | None = None) -> None:
        if self._blocked:  # also if an earlier part of the same batch was blocked
            batch = [write for write in batch if not self._blocked.takes(write)]
        batch = self._begun(batch)
        if not batch:
            return
        # The same order of locks in every process prevents deadlocks: workspaces by id, then
        # the rows of runs, which claims and leases lock.
        if len(batch) > 1:
            batch.sort(key=lambda write: (not write.workspace_id, write.workspace_id))
        while batch:
            batch = self._commit(batch, lock_timeout_ms)

    def _commit(
        self, batch: list[QueuedWrite[Any]], lock_timeout_ms: int | None
    ) -> list[QueuedWrite[Any]]:
        """Commits the first writes of a batch, most often all; returns the others."""
        for tries in itertools.count(1):
            attempt = CommitAttempt()
            try:
                commit(
                    [(write.workspace_id, write.job) for write in batch],
                    attempt,
                    lock_timeout_ms=lock_timeout_ms,
                )
            except BaseException as error:  # noqa: BLE001  handled by kind; the thread must survive
                if self._is_worth_a_try(error, batch, tries):
                    continue
                self._failed(batch, attempt, error)
                return []
            break
        done = len(attempt.values)
        self._committed(batch[:done], attempt)
        return batch[done:]

    def _begun(self, batch: list[QueuedWrite[Any]]) -> list[QueuedWrite[Any]]:
        """Marks the writes as begun, so none is withdrawn later; returns the valid ones."""
        with self._gate:
            for write in batch:
                write.is_begun = True
            return [write for write in batch if not write.is_withdrawn]

    @staticmethod
    def _is_worth_a_try(error: BaseException, batch: list[QueuedWrite[Any]], tries: int) -> bool:
        return (
            len(batch) == 1
            and tries < RETRIES
            and isinstance(error, DatabaseError)
            and failure_of(error) is DatabaseFailure.OTHER
        )

    def _committed(self, batch: list[QueuedWrite[Any]], attempt: CommitAttempt) -> None:
        if outage.since is not None:
            outage.report_end()
        results = list(zip(batch, attempt.values, strict=True))
        self._answers.answer_all(results, attempt.recorded)

    def _failed(
        self, batch: list[QueuedWrite[Any]], attempt: CommitAttempt, error: BaseException
    ) -> None:
        failure = failure_of(error)
        is_begin = attempt.position == BEFORE_ALL_JOBS
        if failure is DatabaseFailure.UNREACHABLE or (
            failure is DatabaseFailure.LOCKED and is_begin
        ):
            self._lost(batch, attempt, error, failure)
        elif failure is DatabaseFailure.LOCKED and attempt.position < len(batch):
            self._locked(batch, batch[attempt.position].lane)
        elif len(batch) > 1:
            logger.debug("a batch of %d jobs is run in halves: %s", len(batch), error)
            middle = len(batch) // 2
            self._settle(batch[:middle])
            self._settle(batch[middle:])
        elif failure is DatabaseFailure.OTHER:
            if not isinstance(error, Refusal | Overtaken):
                logger.error("a write failed", exc_info=error)
            answer_error(batch[0], as_exception(error))
        else:
            self._wait_alone(batch[0], failure, error)

    def _lost(
        self,
        batch: list[QueuedWrite[Any]],
        attempt: CommitAttempt,
        error: BaseException,
        failure: DatabaseFailure,
    ) -> None:
        """Blocks all writes after the connection broke or could not be opened."""
        connection.close()
        outage.report(error)
        if attempt.is_in_doubt:
            done = len(attempt.values)
            self._doubt = CommitDoubt(batch[:done], attempt)
            self._blocked.block_all(batch[done:], failure)
            return
        if attempt.position != BEFORE_ALL_JOBS:
            batch = self._count_losses(batch)
        self._blocked.block_all(batch, failure)

    @staticmethod
    def _count_losses(batch: list[QueuedWrite[Any]]) -> list[QueuedWrite[Any]]:
        """Counts a broken connection for these writes; refuses those that had too many."""
        for write in batch:
            write.losses += 1
            if write.losses >= LOSSES_LIMIT:
                logger.error("a write broke its connection every time")
                answer_error(write, DatabaseUnreachable())
        return [write for write in batch if write.losses < LOSSES_LIMIT]

    def _locked(self, batch: list[QueuedWrite[Any]], lane: Hashable) -> None:
        """Blocks the writes of a workspace whose rows another process holds."""
        held = [write for write in batch if write.lane == lane]
        self._blocked.block_lane(lane, held, DatabaseFailure.LOCKED)
        # The other process may hold more of these rows: wait only briefly for each lock.
        self._settle(
            [write for write in batch if write.lane != lane], lock_timeout_ms=PROBE_LOCK_MS
        )

    def _wait_alone(
        self, write: QueuedWrite[Any], failure: DatabaseFailure, error: BaseException
    ) -> None:
        if failure is DatabaseFailure.FULL:
            outage.report(error)
            if write.until is not None:  # disk space is rarely freed before a request's deadline
                answer_error(write, REFUSALS[failure]())
                return
        self._blocked.block_lane(write.lane, [write], failure)

    # -- blocked writes

    def _try_blocked(self) -> None:
        if not self._blocked:
            return
        for number, group in enumerate(self._blocked.due()):
            # Only the one that has waited longest gets more: the others wait for the writer.
            failures = 0 if number else group.backoff.failures
            probe_ms = min(PROBE_LOCK_MS * 2 ** min(failures, 4), LONGEST_PROBE_MS)
            writes, group.writes = group.writes, []
            writes = self._without_overdue(group, writes)
            if group is self._blocked.everything:
                self._try_all(group, writes)
            else:
                self._settle(writes, lock_timeout_ms=probe_ms)

    def _try_all(self, group: Blocked, writes: list[QueuedWrite[Any]]) -> None:
        if self._doubt is not None and not self._settle_doubt():
            self._blocked.block_all(writes, group.failure)
            return
        writes = group.writes + writes  # the jobs of an aborted COMMIT run first
        self._blocked.unblock_all()
        while writes:
            size = 1 if writes[0].losses >= LOSSES_ALONE else BATCH_LIMIT
            self._settle(writes[:size])
            writes = writes[size:]
            if self._blocked.everything is not None:
                self._blocked.keep_behind(writes, group.backoff)
                return

    def _settle_doubt(self) -> bool:
        """Looks up the outcome of a COMMIT without an answer; returns whether it is known now."""
        doubt = self._doubt
        assert doubt is not None  # noqa: S101  the caller has checked
        try:
            fate = look_up_fate(doubt.attempt)
        except Error as error:
            connection.close()
            outage.report(error)
            return False
        if fate is Fate.IN_PROGRESS:
            return False
        self._doubt = None
        logger.info("a commit whose answer was lost: %s", fate.value)
        if fate is Fate.COMMITTED:
            self._committed(doubt.writes, doubt.attempt)
        else:
            # Its last statements are sent with the COMMIT, and one of them may break the connection.
            kept = self._count_losses(doubt.writes)
            self._blocked.block_all(kept, DatabaseFailure.UNREACHABLE)
        return True

    def _without_overdue(
        self, group: Blocked, writes: list[QueuedWrite[Any]]
    ) -> list[QueuedWrite[Any]]:
        kept = []
        for write in writes:
            if write.is_overdue:
                answer_error(write, REFUSALS[group.failure]())
            else:
                kept.append(write)
        return kept

    def _end_blocked(self) -> None:
        """Retries blocked writes for ``STOPPING_SECONDS``, then refuses them."""
        ends_at = time.monotonic() + STOPPING_SECONDS
        while self._blocked and time.monotonic() < ends_at:
            time.sleep(self._blocked.seconds_until_due() or 0)
            self._try_blocked()
        if self._doubt is not None:
            for write in self._doubt.writes:
                answer_error(write, OutcomeUnknown())
            self._doubt = None
        for group in self._blocked.groups():
            for write in group.writes:
                answer_error(write, ShuttingDown())
        self._blocked = BlockedWrites()


writer = Writer()
