"""Cancels a session's accepted runs, empties its queue, and marks a session as deleted."""

from __future__ import annotations

import asyncio
import logging

from agents.jobs.host import job_host
from agents.jobs.rows import kill_users_commands
from agents.models import RunOutcome, RunState
from agents.runs import nudges
from agents.runs.finish import close_session_work, end_run, erase_if_marked, settle_cancelled
from agents.runs.rows import read_runs, unfinished_runs
from workspaces.actions.sessions import read_session
from workspaces.log.errors import Refusal, SessionUnknown, StorageFull
from workspaces.log.reader import read
from workspaces.log.retries import patience
from workspaces.log.statements import statements
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Session

logger = logging.getLogger(__name__)


async def cancel(workspace_id: str, session_id: str) -> None:
    """Everything accepted before this ends as cancelled; nothing after it is touched."""
    try:
        up_to = await writer.write(
            workspace_id, lambda tx: cancel_session(tx, workspace_id, session_id)
        )
    except StorageFull:
        await _cancel_without_room(workspace_id, session_id)
        return
    job_host().look_soon()
    if up_to is not None:
        await nudges.nudge_cancelled(session_id, up_to=up_to)


async def _cancel_without_room(workspace_id: str, session_id: str) -> None:
    """Stops what runs at once. The cancel itself is stored as soon as there is room.

    Until then it is only in memory, so a crash meanwhile loses it. Prompts of the same
    workspace cannot overtake it: the writer keeps their order.
    """
    up_to = await read(_last_accept, workspace_id, session_id)
    await nudges.nudge_cancelled(session_id, up_to=up_to)
    if session_id in _cancels:
        return
    with patience(None):
        task = asyncio.create_task(_store_cancel(workspace_id, session_id), name="cancel")
    _cancels[session_id] = task
    task.add_done_callback(lambda _: _cancels.pop(session_id, None))


_cancels: dict[str, asyncio.Task[None]] = {}  # given, and not stored yet


async def _store_cancel(workspace_id: str, session_id: str) -> None:
    try:
        await writer.write(workspace_id, lambda tx: cancel_session(tx, workspace_id, session_id))
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


def cancel_session(tx: Transaction, workspace_id: str, session_id: str) -> int | None:
    """Returns the mark when a worker holds a run and must be told, else ``None``."""
    rows = tx.fetch(
        "SELECT last_accept FROM workspaces_session WHERE id = %s AND workspace_id = %s",
        [session_id, workspace_id],
    )
    if not rows:
        raise SessionUnknown
    mark = int(rows[0][0])
    tx.execute("UPDATE workspaces_session SET cancel_mark = %s WHERE id = %s", [mark, session_id])
    kill_users_commands(tx, session_id)
    runs = unfinished_runs(tx, session_id)
    if not runs:
        return None
    if any(run.state == RunState.RUNNING for run in runs):
        # Its holder ends it, and after it what is queued behind it: in order.
        return mark
    for run in runs:
        settle_cancelled(tx, run)
    close_session_work(tx, workspace_id, session_id)
    return None


def withdraw_runs(tx: Transaction, client_id: str) -> list[int]:
    """Cancels the client's unfinished runs that have a ``run_id``: nobody else waits for their end.

    Returns the keys of those that a worker holds and must abort. Other runs of their sessions
    go on, so no session's cancel mark is moved.
    """
    taken = tx.fetch(
        "SELECT id, workspace_id FROM agents_run WHERE client_id = %s AND run_id IS NOT NULL"
        " AND state <> 'finished' ORDER BY workspace_id, id",
        [client_id],
    )
    held: list[int] = []
    for key, workspace_id in taken:
        tx.lock(workspace_id)
        # A worker may claim or end it at this moment: only behind the update its state is known.
        tx.execute("UPDATE agents_run SET is_withdrawn = %s WHERE id = %s", [True, key])
        for run in read_runs(tx, "r.id = %s AND r.state <> 'finished'", [key]):
            if run.state == RunState.RUNNING:
                held.append(key)
            elif unfinished_runs(tx, run.session_id)[0].key == key:
                settle_cancelled(tx, run)
                close_session_work(tx, run.workspace_id, run.session_id)
            # else it is queued, and ends as cancelled when its turn comes
    return held


async def clear_queue(workspace_id: str, session_id: str) -> None:
    """Forgets the prompts that wait behind another; nothing of them is stored."""
    await writer.write(workspace_id, lambda tx: clear_queued(tx, workspace_id, session_id))


def clear_queued(tx: Transaction, workspace_id: str, session_id: str) -> int:
    """Returns how many were forgotten."""
    rows = tx.fetch(
        "SELECT 1 FROM workspaces_session WHERE id = %s AND workspace_id = %s",
        [session_id, workspace_id],
    )
    if not rows:
        raise SessionUnknown
    queued = [
        run
        for run in unfinished_runs(tx, session_id)
        if run.state == RunState.ACCEPTED and run.was_queued
    ]
    for run in queued:
        end_run(tx, run, outcome=RunOutcome.CANCELLED)
    if queued:
        close_session_work(tx, workspace_id, session_id)
    return len(queued)


async def delete_session(workspace_id: str, session_id: str) -> None:
    """Gone for every client at once; its rows go when its last run has ended."""
    up_to = await writer.write(workspace_id, lambda tx: mark_deleted(tx, workspace_id, session_id))
    if up_to is not None:
        await nudges.nudge_cancelled(session_id, up_to=up_to)


def mark_deleted(tx: Transaction, workspace_id: str, session_id: str) -> int | None:
    read_session(tx, workspace_id, session_id)
    Session.objects.filter(pk=session_id).update(is_deleting=True)
    up_to = cancel_session(tx, workspace_id, session_id)
    if up_to is None:
        erase_if_marked(tx, workspace_id, session_id)
    return up_to
