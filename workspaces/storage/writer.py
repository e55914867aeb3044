"""The one writer of a process: commits whatever has gathered, then tells of it.

A thread of its own with a connection of its own. While one commit runs, the
next batch gathers; there is no timer. A job is a function of a ``Transaction``
and must be repeatable: when one job of a batch fails, the batch is rolled back
and its halves run again, down to the failing job alone: only that one fails.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from django.db import DatabaseError, connection, transaction

from workspaces.storage.errors import Overtaken, Refusal, ShuttingDown
from workspaces.storage.statements import statements
from workspaces.storage.transaction import Counters, Recorded, Transaction, store_events

logger = logging.getLogger(__name__)

T = TypeVar("T")
Job = Callable[[Transaction], T]
Publish = Callable[[Sequence[Recorded]], None]

BATCH_LIMIT = 256
RETRIES = 3  # of one job alone, when the database says that it was in another's way


class _Asked(Generic[T]):
    """A job with the workspace it will lock and the answer that somebody waits for."""

    __slots__ = ("answer", "job", "loop", "workspace_id")

    def __init__(
        self,
        workspace_id: str,
        job: Job[T],
        loop: asyncio.AbstractEventLoop | None,
        answer: asyncio.Future[T] | Future[T],
    ) -> None:
        self.workspace_id = workspace_id
        self.job = job
        self.loop = loop
        self.answer = answer


class Writer:
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Asked[Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._publish: Publish | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._gate = threading.Lock()  # nothing is asked behind the mark that ends the thread

    def start(
        self, *, publish: Publish | None = None, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        """``publish`` is called in ``loop`` with each commit's events, in log order."""
        if self._thread is not None:
            raise RuntimeError("the writer runs already")
        self._publish, self._loop = publish, loop
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and not self._closed

    def stop(self) -> None:
        """Commits what was asked before, then ends the thread. Callable twice."""
        with self._gate:
            thread = self._thread
            if thread is None:
                return
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        thread.join()
        self._thread = None

    async def write(self, workspace_id: str, job: Job[T]) -> T:
        """Runs the job and returns its value after the commit.

        When the caller is cancelled meanwhile, the job is carried out all the same.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        if not self._ask(_Asked(workspace_id, job, loop, answer)):
            raise ShuttingDown
        return await answer

    def write_and_wait(self, workspace_id: str, job: Job[T]) -> T:
        """The same for a thread outside the loop; without a running writer, right here."""
        answer: Future[T] = Future()
        if not self._ask(_Asked(workspace_id, job, None, answer)):
            return run_alone(workspace_id, job)[0]
        return answer.result()

    def _ask(self, asked: _Asked[Any]) -> bool:
        with self._gate:
            if not self.is_running:
                return False
            self._queue.put(asked)
            return True

    # -- the thread

    def _work(self) -> None:
        try:
            while (first := self._queue.get()) is not None:
                batch, ended = self._gather(first)
                self._settle(batch)
                if ended:
                    break
        finally:
            connection.close()

    def _gather(self, first: _Asked[Any]) -> tuple[list[_Asked[Any]], bool]:
        batch = [first]
        while len(batch) < BATCH_LIMIT:
            try:
                asked = self._queue.get_nowait()
            except queue.Empty:
                break
            if asked is None:
                return batch, True
            batch.append(asked)
        return batch, False

    def _settle(self, batch: list[_Asked[Any]]) -> None:
        if len(batch) == 1:
            self._settle_alone(batch[0])
            return
        # One order of locks in every process: no two batches can wait for each other.
        batch.sort(key=lambda asked: asked.workspace_id)
        try:
            values, recorded = _commit([(asked.workspace_id, asked.job) for asked in batch])
        except BaseException as error:  # noqa: BLE001  the job that failed is found below
            logger.debug("a batch of %d jobs is run in halves: %s", len(batch), error)
            middle = len(batch) // 2
            self._settle(batch[:middle])
            self._settle(batch[middle:])
        else:
            self._answer(list(zip(batch, values, strict=True)), recorded)

    def _settle_alone(self, asked: _Asked[Any]) -> None:
        try:
            value, recorded = run_alone(asked.workspace_id, asked.job)
        except BaseException as error:
            if not isinstance(error, Refusal | Overtaken):
                logger.exception("a write failed")
            self._refuse(asked, _tellable(error))
        else:
            self._answer([(asked, value)], recorded)

    def _answer(
        self, answers: Sequence[tuple[_Asked[Any], Any]], recorded: Sequence[Recorded]
    ) -> None:
        # One wake-up of the loop for the whole batch: first the events, so that whoever
        # awaited a write finds it already told to the subscribers.
        loop = self._loop
        if loop is None or loop.is_closed():
            _resolve(answers)
            return
        publish = self._publish

        def tell() -> None:
            try:
                if publish is not None and recorded:
                    publish(recorded)
            except Exception:
                # It is committed: whoever asked must not wait because telling others failed.
                logger.exception("committed events could not be published")
            _resolve(answers)

        if not _call_in(loop, tell):
            _resolve(answers)

    def _refuse(self, asked: _Asked[Any], error: Exception) -> None:
        def tell() -> None:
            if not asked.answer.done():
                asked.answer.set_exception(error)

        if asked.loop is None:
            tell()
        else:
            _call_in(asked.loop, tell)


def _resolve(answers: Sequence[tuple[_Asked[Any], Any]]) -> None:
    for asked, value in answers:
        if asked.answer.done():
            continue
        if asked.loop is None or asked.loop is _running_loop():
            asked.answer.set_result(value)
        else:
            _call_in(asked.loop, _setter(asked.answer, value))


def _setter(answer: asyncio.Future[Any] | Future[Any], value: Any) -> Callable[[], None]:
    def tell() -> None:
        if not answer.done():
            answer.set_result(value)

    return tell


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _call_in(loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> bool:
    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:
        logger.debug("the loop that asked is closed")
        return False
    return True


def _tellable(error: BaseException) -> Exception:
    """A future takes no ``StopIteration``, and a job's exit is not its caller's."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    told = RuntimeError(f"a write failed: {type(error).__name__}")
    told.__cause__ = error
    return told


def _commit(jobs: Sequence[tuple[str, Job[Any]]]) -> tuple[list[Any], list[Recorded]]:
    """Runs the jobs in one transaction."""
    values: list[Any] = []
    recorded: list[Recorded] = []
    counters = Counters()
    with transaction.atomic(), statements() as cursor:
        for workspace_id, job in jobs:
            step = Transaction(cursor, counters)
            if workspace_id:
                step.lock(workspace_id)
            values.append(job(step))
            recorded += step.recorded
        store_events(cursor, recorded, counters)
    return values, recorded


def run_alone(workspace_id: str, job: Job[T]) -> tuple[T, list[Recorded]]:
    """One job in a transaction of its own, in this thread."""
    for attempt in range(RETRIES):
        try:
            values, recorded = _commit([(workspace_id, job)])
        except DatabaseError:
            if attempt + 1 == RETRIES:
                raise
            connection.close_if_unusable_or_obsolete()
        else:
            return values[0], recorded
    raise AssertionError  # the last attempt returns or raises


writer = Writer()
