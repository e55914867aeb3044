"""Cancels a session's accepted runs, empties its queue, and marks a session as deleted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from django.db.models import QuerySet

from agents.jobs.host import job_host
from agents.jobs.rows import kill_users_commands
from agents.models import Run
from agents.runs import nudges
from agents.runs.finish import (
    SETTLED_AT_ONCE,
    close_session_work,
    delete_if_marked,
    settle_cancelled,
    settle_next,
    settle_queued,
)
from agents.runs.lease import LeaseLost
from agents.runs.rows import (
    QUEUED,
    UNFINISHED,
    note_canceller,
    read_runs,
    runs_of_client,
    unfinished_runs,
)
from agents.runs.steps import OfferedEnd
from agents.runs.transitions import mark_removed, withdraw_run
from agents.states import IN_PROGRESS, RunOutcome, RunState, in_sql
from people.actions.audit import DONE, Act, record
from workspaces.access import Actor, author_of
from workspaces.actions.sessions import read_session
from workspaces.log.commits import Job
from workspaces.log.deadlines import wait_at_most
from workspaces.log.errors import (
    OutcomeUnknown,
    Refusal,
    SessionUnknown,
    StorageFull,
    WorkspaceUnknown,
)
from workspaces.log.reader import read
from workspaces.log.statements import statements
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Session

logger = logging.getLogger(__name__)


async def cancel(
    workspace_id: str, session_id: str, *, actor: Actor | None = None, must_be_open: bool = True
) -> None:
    """Cancels all runs that the session has accepted so far, and none that it accepts later.

    Raises ``SessionUnknown``, and ``WorkspaceUnknown`` when the workspace is closed although it
    must be open.
    """

    def job(tx: Transaction) -> int | None:
        return _cancel_visible(tx, workspace_id, session_id, actor, must_be_open=must_be_open)

    try:
        is_ended = await _cancel_with_end(workspace_id, session_id, job)
        up_to = None if is_ended else await writer.write(workspace_id, job)
    except StorageFull:
        await _cancel_without_room(workspace_id, session_id, actor)
        return
    job_host().look_soon()
    if up_to is not None:
        await nudges.nudge_cancelled(session_id, up_to=up_to)
    else:
        await settle_rest(workspace_id, session_id)


async def settle_rest(workspace_id: str, session_id: str) -> None:
    """Ends the cancelled runs that the transaction of the cancel, or of a run's end, has left."""
    await _repeat(workspace_id, lambda tx: settle_next(tx, workspace_id, session_id))


async def _repeat(workspace_id: str, job: Job[bool]) -> None:
    """Runs the job until it finds nothing more to end. Each time is a transaction of its own."""
    try:
        while await writer.write(workspace_id, job):
            pass
    except Refusal as refusal:  # the cancel is stored, and workers end what is left
        logger.info("cancelled runs are left to the workers: %s", refusal)


Offer = Callable[[str, str], OfferedEnd | None]

_offers: list[Offer] = []


def take_offers_of(offer: Offer) -> None:
    """Registers this process's worker, which offers the end of a session's run to a cancel."""
    _offers.append(offer)


def stop_taking_offers_of(offer: Offer) -> None:
    if offer in _offers:
        _offers.remove(offer)


async def _cancel_with_end(workspace_id: str, session_id: str, cancel: Job[int | None]) -> bool:
    """Stores the cancel with the end of the run, if a run of this process offers its end.

    One transaction in place of two, with the way of a nudge between them, takes 0.9 ms less of 3.4
    (`python -m tests.bench --figure cancel`). Returns whether the cancel is stored.
    """
    ends = (offer(workspace_id, session_id) for offer in _offers)
    if (end := next(filter(None, ends), None)) is None:
        return False
    is_stored: bool | None = None

    def job(tx: Transaction) -> bool:
        is_running = cancel(tx) is not None
        if is_running:
            end.write(tx)
        return is_running

    try:
        is_stored = await writer.write(workspace_id, job)
    except LeaseLost:
        is_stored = False
        return False
    except OutcomeUnknown:
        raise
    except Refusal:
        is_stored = False
        raise
    finally:
        end.settle(is_stored)
    return True


def _cancel_visible(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    actor: Actor | None,
    *,
    must_be_open: bool,
) -> int | None:
    # A statement, and not a query before the write: that would take a thread, and 0.2 ms of the
    # 1.8 ms from a cancel to the end of its run (`python -m tests.bench --figure cancel`).
    rows = tx.fetch(
        "SELECT w.is_open, s.is_deleting FROM workspaces_workspace w LEFT JOIN workspaces_session s"
        " ON s.workspace_id = w.id AND s.id = %s WHERE w.id = %s",
        [session_id, workspace_id],
    )
    if not rows or (must_be_open and not rows[0][0]):
        raise WorkspaceUnknown
    if rows[0][1] is None or rows[0][1]:
        raise SessionUnknown
    return cancel_session(tx, workspace_id, session_id, actor=actor)


async def _cancel_without_room(workspace_id: str, session_id: str, actor: Actor | None) -> None:
    """Stops the running work at once, and stores the cancel as soon as the disk has room.

    Until then it is only in memory, so a crash loses it. Prompts of the same workspace
    cannot overtake it: the writer keeps their order.
    """
    up_to = await read(_last_accept, workspace_id, session_id)
    await nudges.nudge_cancelled(session_id, up_to=up_to)
    if session_id in _cancels:
        return
    with wait_at_most(None):
        work = _store_cancel(workspace_id, session_id, actor)
        task = asyncio.create_task(work, name="cancel")
    _cancels[session_id] = task
    task.add_done_callback(lambda _: _cancels.pop(session_id, None))


_cancels: dict[str, asyncio.Task[None]] = {}  # cancels that are not stored yet, by session


async def _store_cancel(workspace_id: str, session_id: str, actor: Actor | None) -> None:
    try:
        await writer.write(
            workspace_id, lambda tx: cancel_session(tx, workspace_id, session_id, actor=actor)
        )
    except Refusal as refusal:  # the session is gone, or the server stops
        logger.info("a cancel was not stored: %s", refusal, extra={"session": session_id})
    job_host().look_soon()


def _last_accept(workspace_id: str, session_id: str) -> int:
    with statements() as cursor:
        cursor.execute(
            "SELECT last_accept FROM workspaces_session WHERE id = %s AND workspace_id = %s",
            [session_id, workspace_id],
        )
        row = cursor.fetchone()
    if row is None:
        raise SessionUnknown
    return int(row[0])


def cancel_session(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    actor: Actor | None = None,
    act: Act = Act.CANCEL,
) -> int | None:
    """Sets the cancel mark; returns it if a worker holds a run and needs a nudge, else ``None``."""
    rows = tx.fetch(
        "UPDATE workspaces_session SET cancel_mark = last_accept"
        " WHERE id = %s AND workspace_id = %s RETURNING last_accept",
        [session_id, workspace_id],
    )
    if not rows:
        raise SessionUnknown
    mark = int(rows[0][0])
    kill_users_commands(tx, session_id)
    note_canceller(tx, "r.session_id = %s", [session_id], author=author_of(actor))
    unfinished = Run.objects.filter(session_id=session_id).exclude(state=RunState.FINISHED)
    runs = _names(unfinished)
    record(
        tx,
        actor,
        act,
        workspace_id=workspace_id,
        session_id=session_id,
        outcome=DONE if runs else "nothing to cancel",
        details={"runs": runs},
    )
    if not runs:
        return None
    begun = read_runs(tx, f"r.session_id = %s AND r.state IN {in_sql(IN_PROGRESS)}", [session_id])
    if any(run.state == RunState.RUNNING for run in begun):
        # The worker ends its run and then the runs queued after it, in order.
        return mark
    for run in begun:
        settle_cancelled(tx, run)
    close_session_work(tx, workspace_id, session_id)
    return None


def _names(runs: QuerySet[Run]) -> list[str | int]:
    """Returns what the audit log calls these runs, without reading their prompts."""
    rows = runs.order_by("accept_number").values_list("run_id", "pk")
    return [run_id or key for run_id, key in rows]


def withdraw_runs(tx: Transaction, client_id: str, *, actor: Actor | None = None) -> list[int]:
    """Cancels the client's unfinished runs that have a ``run_id``: no other client waits for their end.

    Returns the keys of those that a worker holds and must abort. Other runs of their sessions
    continue, so no session's cancel mark changes.
    """
    held: list[int] = []
    for key, workspace_id in runs_of_client(tx, client_id):
        tx.lock(workspace_id)
        # A worker may claim or end the run at this moment: its state is certain only after the
        # update.
        withdraw_run(tx, key)
        note_canceller(tx, "r.id = %s", [key], author=author_of(actor))
        for run in read_runs(tx, f"r.id = %s AND {UNFINISHED}", [key]):
            if run.state == RunState.RUNNING:
                held.append(key)
            elif run.state in IN_PROGRESS or unfinished_runs(tx, run.session_id)[0].key == key:
                settle_cancelled(tx, run)
                close_session_work(tx, run.workspace_id, run.session_id)
            # Any other run is queued, and ends as cancelled when the runs before it have ended.
    return held


async def clear_queue(workspace_id: str, session_id: str, *, actor: Actor | None = None) -> None:
    """Cancels the queued prompts of a session; they leave no messages."""
    await writer.write(
        workspace_id, lambda tx: clear_queued(tx, workspace_id, session_id, actor=actor)
    )
    await _repeat(workspace_id, lambda tx: _end_removed(tx, workspace_id, session_id))


def clear_queued(
    tx: Transaction, workspace_id: str, session_id: str, *, actor: Actor | None = None
) -> int:
    """Cancels the queued runs and ends the first of them; returns the number of all."""
    rows = tx.fetch(
        "SELECT 1 FROM workspaces_session WHERE id = %s AND workspace_id = %s",
        [session_id, workspace_id],
    )
    if not rows:
        raise SessionUnknown
    queued = Run.objects.filter(session_id=session_id, state=RunState.ACCEPTED, was_queued=True)
    removed = _names(queued)
    record(
        tx,
        actor,
        Act.CLEAR_QUEUE,
        workspace_id=workspace_id,
        session_id=session_id,
        details={"runs": removed},
    )
    mark_removed(tx, session_id, author=author_of(actor))
    _end_removed(tx, workspace_id, session_id)
    return len(removed)


def _end_removed(tx: Transaction, workspace_id: str, session_id: str) -> bool:
    """Ends some of the removed prompts; returns whether there were any."""
    where = f"{QUEUED} AND r.outcome = '{RunOutcome.CANCELLED}'"
    removed = read_runs(tx, where, [session_id], limit=SETTLED_AT_ONCE)
    if removed:
        settle_queued(tx, workspace_id, session_id, removed)
        close_session_work(tx, workspace_id, session_id)
    return bool(removed)


async def delete_session(workspace_id: str, session_id: str, *, actor: Actor | None = None) -> None:
    """Hides the session from all clients at once; its rows are removed after its last run."""
    up_to = await writer.write(
        workspace_id, lambda tx: mark_deleted(tx, workspace_id, session_id, actor=actor)
    )
    if up_to is not None:
        await nudges.nudge_cancelled(session_id, up_to=up_to)
    else:
        await settle_rest(workspace_id, session_id)


def mark_deleted(
    tx: Transaction, workspace_id: str, session_id: str, *, actor: Actor | None = None
) -> int | None:
    read_session(tx, workspace_id, session_id)
    Session.objects.filter(pk=session_id).update(is_deleting=True)
    up_to = cancel_session(tx, workspace_id, session_id, actor=actor, act=Act.DELETE_SESSION)
    if not unfinished_runs(tx, session_id, limit=1):
        delete_if_marked(tx, workspace_id, session_id)
    return up_to
