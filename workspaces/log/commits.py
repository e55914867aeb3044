"""Runs jobs in one transaction, and finds out whether a COMMIT without an answer succeeded.

When the connection breaks after COMMIT was sent, PostgreSQL may or may not have committed. Running
the jobs again could write them twice, so the next connection looks up the transaction by its id.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar

from django.db import DatabaseError, DataError, Error, connection, transaction

from workspaces.backoff import Backoff
from workspaces.log.deadlines import REQUEST_SECONDS
from workspaces.log.errors import OutcomeUnknown
from workspaces.log.failures import DatabaseFailure, failure_of
from workspaces.log.statements import (
    Statements,
    send_commit,
    send_waiting,
    sending_soon,
    statements,
)
from workspaces.log.transaction import (
    Counters,
    RecordedEvent,
    Transaction,
    store_events,
)

T = TypeVar("T")
Job = Callable[[Transaction], T]

# The statements below are functions of PostgreSQL that the ORM does not offer.
BEFORE_ALL_JOBS = -1
# A transaction takes no further job after this time: other processes wait for its workspaces.
HOLD_SECONDS = 0.1
RETRIES = 3  # of a single job, after an unclassified database error


class Fate(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    IN_PROGRESS = "in progress"


class CommitAttempt:
    """The progress of one transaction; valid also after ``commit`` has raised."""

    __slots__ = ("is_commit_sent", "position", "recorded", "transaction_id", "values")

    def __init__(self) -> None:
        self.position = BEFORE_ALL_JOBS  # of the current job; ``len(jobs)`` after the last one
        self.values: list[Any] = []
        self.recorded: list[RecordedEvent] = []
        self.transaction_id: str | None = None
        self.is_commit_sent = False

    @property
    def is_in_doubt(self) -> bool:
        """Whether the transaction may be committed although its connection broke.

        A transaction without an id has written nothing.
        """
        return self.is_commit_sent and self.transaction_id is not None


def commit(
    jobs: Sequence[tuple[str, Job[Any]]],
    attempt: CommitAttempt,
    *,
    lock_timeout_ms: int | None = None,
) -> None:
    """Runs the jobs and commits. ``attempt`` holds the results, or the position of the failure.

    After ``HOLD_SECONDS`` it commits without the last jobs: there are fewer results then.
    """
    counters = Counters(connection.vendor)
    ends_at = math.inf
    is_outermost = not connection.in_atomic_block
    with transaction.atomic(), statements() as cursor, sending_soon(cursor, counters.settle):
        if lock_timeout_ms is not None and counters.is_postgresql:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{lock_timeout_ms}ms"])
        for position, (workspace_id, job) in enumerate(jobs):
            if time.monotonic() >= ends_at:
                break
            attempt.position = position
            step = Transaction(cursor, counters)
            if workspace_id:
                counters.lock(cursor, workspace_id)
            attempt.values.append(job(step))
            attempt.recorded += step.recorded
            if position == 0:  # not before: the first lock may have been waited for
                ends_at = time.monotonic() + HOLD_SECONDS
            if position < len(jobs) - 1:  # an error must be that of the job that made it
                send_waiting(cursor)
            counters.settle(cursor)
        store_events(cursor, attempt.recorded, counters)
        _identify(attempt, counters, cursor)
        attempt.is_commit_sent = True
        if is_outermost:
            send_commit(cursor)
        else:  # the transaction around it commits
            send_waiting(cursor)
        attempt.position = len(jobs)


def _identify(attempt: CommitAttempt, counters: Counters, cursor: Statements) -> None:
    if not counters.is_postgresql:
        return
    if counters.transaction_id is None:  # no workspace was locked: runs were claimed, for example
        cursor.execute("SELECT pg_current_xact_id_if_assigned()::text")
        (counters.transaction_id,) = cursor.fetchone()
    attempt.transaction_id = counters.transaction_id


def look_up_fate(attempt: CommitAttempt) -> Fate:
    """Returns the outcome of a COMMIT without an answer, over a new connection.

    Terminates the old connection's session if it still holds the transaction. Raises database
    errors while the database is unreachable.
    """
    try:
        status = _status_of(attempt)
    except DataError:
        # After a failover the new server does not have this id: it was not replicated.
        return Fate.ABORTED
    # NULL: the id is too old to look up. Its outcome is unknown, and
    # writing twice would be worse than not writing.
    return Fate.COMMITTED if status is None else Fate(status)


def _status_of(attempt: CommitAttempt) -> str | None:
    with statements() as cursor:
        cursor.execute("SELECT pg_xact_status(%s::xid8)", [attempt.transaction_id])
        (status,) = cursor.fetchone()
        if status == "in progress":
            # The server has not noticed yet that the connection is gone.
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_xid = (%s::xid8)::xid",
                [attempt.transaction_id],
            )
            cursor.fetchall()
    return None if status is None else str(status)


def run_alone(
    workspace_id: str, job: Job[T], *, seconds: float = REQUEST_SECONDS
) -> tuple[T, list[RecordedEvent]]:
    """Runs one job in a transaction of its own, in this thread.

    Retries for ``seconds`` after a locked row or a lost connection.
    """
    until = time.monotonic() + seconds
    backoff = Backoff()
    for tries in itertools.count(1):
        attempt = CommitAttempt()
        try:
            commit([(workspace_id, job)], attempt)
        except DatabaseError as error:
            failure = failure_of(error)
            if failure is DatabaseFailure.UNREACHABLE and attempt.is_in_doubt:
                connection.close()
                if _is_committed(attempt, until):
                    break
            elif failure is DatabaseFailure.OTHER or failure is DatabaseFailure.FULL:
                if tries >= RETRIES:
                    raise
                continue
            if time.monotonic() >= until:
                raise
            connection.close_if_unusable_or_obsolete()
            time.sleep(backoff.next_seconds())
        else:
            break
    return attempt.values[0], attempt.recorded


def _is_committed(attempt: CommitAttempt, until: float) -> bool:
    """Waits for the outcome. Raises ``OutcomeUnknown`` if the database does not answer in time."""
    backoff = Backoff()
    while time.monotonic() < until:
        try:
            fate = look_up_fate(attempt)
        except Error:
            connection.close()
        else:
            if fate is not Fate.IN_PROGRESS:
                return fate is Fate.COMMITTED
        time.sleep(backoff.next_seconds())
    raise OutcomeUnknown
