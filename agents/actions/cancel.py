"""Cancelling a session's accepted work, and emptying its queue."""

from __future__ import annotations

from agents import wakeup
from agents.actions.finish import close_session_work, end_run, settle_cancelled
from agents.actions.run_rows import unfinished_runs
from agents.jobs.host import job_host
from agents.jobs.rows import kill_users_commands
from agents.models import RunOutcome, RunState
from workspaces.storage.errors import SessionUnknown
from workspaces.storage.transaction import Transaction
from workspaces.storage.writer import writer


async def cancel(workspace_id: str, session_id: str) -> None:
    """Everything accepted before this ends as cancelled; nothing after it is touched."""
    up_to = await writer.write(
        workspace_id, lambda tx: cancel_session(tx, workspace_id, session_id)
    )
    job_host().look_soon()
    if up_to is not None:
        await wakeup.nudge_cancelled(session_id, up_to=up_to)


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
