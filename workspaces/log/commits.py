"""Runs jobs in one transaction, and finds out whether a COMMIT without an answer succeeded.

When the connection breaks after COMMIT was sent, PostgreSQL may or may not have committed. Running
the jobs again could write them twice, so the next connection looks up the transaction by its id.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypeVar

from django.db import DatabaseError, DataError, Error, connection, transaction

from workspaces.log.errors import OutcomeUnknown
from workspaces.log.failures import DatabaseFailure, failure_of
from workspaces.log.retries import REQUEST_SECONDS, Backoff
from workspaces.log.statements import Statements, statements
from workspaces.log.transaction import (
    Counters,
    RecordedEvent,
    Transaction,
    store_events,
)

T = TypeVar("T")
Job = Callable[[Transaction], T]

BEFORE_ALL_JOBS = -1
RETRIES = 3  # of one job alone, for a database error that nothing is known about


class Fate(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    IN_PROGRESS = "in progress"


class CommitAttempt:
    """How far one transaction came; meaningful also after ``commit`` has raised."""

    __slots__ = ("is_commit_sent", "position", "recorded", "transaction_id", "values")

    def __init__(self) -> None:
        self.position = BEFORE_ALL_JOBS  # of the job in work; ``len(jobs)`` once all were run
        self.values: list[Any] = []
        self.recorded: list[RecordedEvent] = []
        self.transaction_id: str | None = None
        self.is_commit_sent = False

    @property
    def is_in_doubt(self) -> bool:
        """Whether it may be committed although its connection broke.

        Without an id it has written nothing.
        """
        return self.is_commit_sent and self.transaction_id is not None


def commit(
    jobs: Sequence[tuple[str, Job[Any]]],
    attempt: CommitAttempt,
    *,
    lock_timeout_ms: int | None = None,
) -> None:
    """Runs the jobs and commits. ``attempt`` has the results, or says where it failed."""
    counters = Counters(connection.vendor)
    with transaction.atomic(), statements() as cursor:
        if lock_timeout_ms is not None and counters.is_postgresql:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{lock_timeout_ms}ms"])
        for position, (workspace_id, job) in enumerate(jobs):
            attempt.position = position
            step = Transaction(cursor, counters)
            if workspace_id:
                step.lock(workspace_id)
            attempt.values.append(job(step))
            attempt.recorded += step.recorded
        attempt.position = len(jobs)
        store_events(cursor, attempt.recorded)
        _identify(attempt, counters, cursor)
        attempt.is_commit_sent = True


def _identify(attempt: CommitAttempt, counters: Counters, cursor: Statements) -> None:
    if not counters.is_postgresql:
        return
    if counters.transaction_id is None:  # no workspace was locked: runs were claimed, for example
        cursor.execute("SELECT pg_current_xact_id_if_assigned()::text")
        counters.transaction_id = cursor.fetchone()[0]
    attempt.transaction_id = counters.transaction_id


def look_up_fate(attempt: CommitAttempt) -> Fate:
    """Over a new connection. Ends the old one's session where that still holds the transaction.

    Raises the database's errors while it cannot be reached.
    """
    with statements() as cursor:
        try:
            cursor.execute("SELECT pg_xact_status(%s::xid8)", [attempt.transaction_id])
        except DataError:
            # After a failover the new server has never heard of this id: it was not replicated.
            return Fate.ABORTED
        status = cursor.fetchone()[0]
        if status == "in progress":
            # The server has not noticed yet that the connection is gone.
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_xid = (%s::xid8)::xid",
                [attempt.transaction_id],
            )
            cursor.fetchall()
    # NULL: too old to be known. It waited for hours; what it wrote cannot be missing any more
    # than it can be proved, and carrying it out twice is the worse mistake.
    return Fate.COMMITTED if status is None else Fate(status)


def run_alone(
    workspace_id: str, job: Job[T], *, seconds: float = REQUEST_SECONDS
) -> tuple[T, list[RecordedEvent]]:
    """One job in a transaction of its own, in this thread.

    Waits for a locked row or a lost connection for so many seconds.
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
    """Raises ``OutcomeUnknown`` where the database does not answer in time."""
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
