"""Ends runs: each gets one ``run.finished``, in one transaction with its last message."""

from __future__ import annotations

from agents.models import RunKind, RunOutcome, RunState, SubAgentState
from agents.runs.messages import finish_reply, give_results, open_call_ids, store_prompt
from agents.runs.resume import mark_ready
from agents.runs.rows import RunRow, read_runs, run_wire, unfinished_runs
from agents.turn.error_text import split_error
from agents.turn.notes import CANCELLED_NOTE, CANCELLED_RESULT
from permissions.actions.questions import withdraw_batches
from permissions.actions.requests import forget_session_permissions, withdraw_requests
from workspaces.actions.sessions import add_usage, erase_session, tell_session
from workspaces.actions.workspaces import close_workspace
from workspaces.log.parts import (
    Finish,
    FinishReason,
)
from workspaces.log.rows import SESSION_COLUMNS as SESSION_COLUMNS
from workspaces.log.rows import session_of_row
from workspaces.log.timestamps import as_seconds
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind


def close_if_left(tx: Transaction, workspace_id: str) -> bool:
    """Closes the workspace if it may close. Parked runs hold nothing: they return with it."""
    tx.lock(workspace_id)
    # Asked at the end of every run: one statement, answered by two indexes.
    closable = tx.fetch(
        "SELECT 1 FROM workspaces_workspace w WHERE w.id = %s AND w.is_open = %s"
        " AND NOT EXISTS (SELECT 1 FROM workspaces_clientclaim c WHERE c.workspace_id = w.id)"
        " AND NOT EXISTS (SELECT 1 FROM agents_run r WHERE r.workspace_id = w.id"
        " AND r.state IN ('accepted', 'running', 'ready'))",
        [workspace_id, True],
    )
    if not closable:
        return False
    close_workspace(tx, workspace_id)
    return True


def erase_if_marked(tx: Transaction, workspace_id: str, session_id: str) -> None:
    """A session that was deleted while it ran goes when its last run has ended."""
    rows = tx.fetch(
        f"SELECT {SESSION_COLUMNS} FROM workspaces_session WHERE id = %s AND is_deleting = %s",
        [session_id, True],
    )
    if rows:
        forget_session_permissions(tx, session_id)
        tx.execute(
            "UPDATE agents_run SET parent_id = NULL WHERE parent_id IN"
            " (SELECT id FROM agents_run WHERE session_id = %s)",
            [session_id],
        )
        tx.execute(
            "DELETE FROM agents_subagent WHERE run_id IN"
            " (SELECT id FROM agents_run WHERE session_id = %s)",
            [session_id],
        )
        tx.execute("DELETE FROM agents_run WHERE session_id = %s", [session_id])
        erase_session(tx, workspace_id, session_of_row(rows[0]))
        _erase_below(tx, workspace_id, session_id)


def _erase_below(tx: Transaction, workspace_id: str, session_id: str) -> None:
    """What the session's calls sent for goes with it; what still runs goes at its end."""
    children = tx.fetch(
        "SELECT id FROM workspaces_session WHERE parent_session_id = %s", [session_id]
    )
    for (child_id,) in children:
        tx.execute("UPDATE workspaces_session SET is_deleting = %s WHERE id = %s", [True, child_id])
        if not unfinished_runs(tx, child_id):
            erase_if_marked(tx, workspace_id, child_id)


INTERRUPTED = "interrupted: the server stopped in the middle of this step; send the prompt again"


def end_run(
    tx: Transaction,
    run: RunRow,
    *,
    outcome: RunOutcome,
    message_id: str = "",
    error: str = "",
) -> None:
    """Marks the run as finished and tells of it. The caller then closes the session's work.

    The message's words are told by an event of the same transaction, and not again here.
    """
    withdraw_requests(tx, run.key)
    withdraw_batches(tx, run.key)
    tx.execute(
        "UPDATE agents_run SET state = 'finished', outcome = %s, message_id = %s, error = %s,"
        " finished_at = %s, open_calls = '[]', lease_expires_at = 0 WHERE id = %s",
        [outcome.value, message_id, error, tx.now, run.key],
    )
    if run.kind == RunKind.FLEET:
        # Whoever held it says more of how it ended; a holder that died does not.
        tx.execute(
            "UPDATE agents_subagent SET state = %s, ending = %s, ended_at = %s WHERE run_id = %s",
            [SubAgentState.ENDED.value, outcome.value, tx.now, run.key],
        )
    if outcome in {RunOutcome.FAILED, RunOutcome.INTERRUPTED}:
        failed = {"session_id": run.session_id, "run_id": run.run_id or "", "error": error}
        if run.parent is not None:
            failed["kind"] = run.kind  # its parent's call has the error
        tx.append(run.workspace_id, Kind.AGENT_FAILED, failed, session_id=run.session_id)
    rows = tx.fetch("SELECT title FROM workspaces_session WHERE id = %s", [run.session_id])
    wire = run_wire(
        run,
        message_id=message_id,
        error=error,
        outcome=outcome.value,
        session_title=rows[0][0] if rows else "",
    )
    tx.append(run.workspace_id, Kind.RUN_FINISHED, {"run": wire}, session_id=run.session_id)
    _end_children(tx, run)
    if run.parent is not None:
        _return_to(tx, run, run.parent)


def _end_children(tx: Transaction, run: RunRow) -> None:
    """Nobody waits any more for what the run sent for."""
    for child in read_runs(tx, "r.parent_id = %s AND r.state <> 'finished'", [run.key]):
        tx.execute(
            "UPDATE workspaces_session SET cancel_mark = last_accept WHERE id = %s",
            [child.session_id],
        )
        if child.state != RunState.RUNNING:  # else its holder ends it
            settle_cancelled(tx, child)
            close_session_work(tx, child.workspace_id, child.session_id)


def _return_to(tx: Transaction, run: RunRow, parent_key: int) -> None:
    """The parent's session pays for the run, and the parent goes on."""
    parents = read_runs(tx, "r.id = %s", [parent_key])
    if not parents:
        return
    parent = parents[0]
    ((cost,),) = tx.fetch("SELECT cost FROM workspaces_session WHERE id = %s", [run.session_id])
    add_usage(tx, parent.session_id, cost=cost)
    tell_session(tx, parent.workspace_id, parent.session_id)
    mark_ready(tx, parent_key)


def close_session_work(tx: Transaction, workspace_id: str, session_id: str) -> None:
    """After runs ended: what a cancel took behind them, the busy mark, deletion, teardown."""
    runs = unfinished_runs(tx, session_id)
    while runs and runs[0].state == RunState.ACCEPTED and runs[0].is_cancelled:
        settle_cancelled(tx, runs.pop(0))
    tx.execute(
        "UPDATE workspaces_session SET is_busy = %s, updated_at = %s WHERE id = %s",
        [bool(runs), tx.now, session_id],
    )
    told = tell_session(tx, workspace_id, session_id)
    if not runs:
        if told is None:  # it is being deleted
            erase_if_marked(tx, workspace_id, session_id)
        close_if_left(tx, workspace_id)


def settle_cancelled(tx: Transaction, run: RunRow) -> None:
    """Ends a run that no worker holds: its messages as a worker would have left them."""
    note = Finish(FinishReason.CANCELED, as_seconds(tx.now), CANCELLED_NOTE)
    _settle(tx, run, note, result=CANCELLED_RESULT, outcome=RunOutcome.CANCELLED, error="")


def settle_interrupted(tx: Transaction, run: RunRow) -> None:
    """Ends a run whose process died inside a stream or a tool: nothing is done twice."""
    note = Finish(FinishReason.ERROR, as_seconds(tx.now), "Interrupted", INTERRUPTED)
    _settle(tx, run, note, result=INTERRUPTED, outcome=RunOutcome.INTERRUPTED, error=INTERRUPTED)


def settle_failed(tx: Transaction, run: RunRow, error: str) -> None:
    """Ends a run that could not be carried out, for a reason of ours."""
    note = Finish(FinishReason.ERROR, as_seconds(tx.now), *split_error(error))
    _settle(tx, run, note, result=error, outcome=RunOutcome.FAILED, error=error)


def _settle(
    tx: Transaction, run: RunRow, finish: Finish, *, result: str, outcome: RunOutcome, error: str
) -> None:
    if run.started_at is None and run.kind == RunKind.SUMMARY:
        end_run(tx, run, outcome=outcome, error=error)
        return
    if run.started_at is None:
        store_prompt(tx, run)
    message_id = finish_reply(tx, run, finish)
    give_results(tx, run, dict.fromkeys(open_call_ids(tx, run), result))
    end_run(tx, run, outcome=outcome, message_id=message_id, error=error)
