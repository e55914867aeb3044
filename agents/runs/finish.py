"""Ends runs: each gets one ``run.finished``, in one transaction with its last message.

A run whose worker died is released for another worker; after too many of them it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import orjson

from agents.fleet.parent.outcome import Ending
from agents.models import Run, RunKind, SubAgent
from agents.runs.history.rollback import begin_rollback
from agents.runs.messages import (
    MOST_LOST_WORKERS,
    finish_reply,
    give_results,
    open_call_ids,
    reported_tools,
    store_prompt,
)
from agents.runs.objects.run_objects import run_wire
from agents.runs.rescue.cut_calls import settle_cut_calls
from agents.runs.rows import (
    HAS_ACTIVE_RUNS,
    HAS_UNFINISHED_CHILDREN,
    UNFINISHED,
    RunRow,
    delete_runs,
    note_canceller,
    read_runs,
    unfinished_runs,
)
from agents.runs.transitions import (
    mark_cancelled,
    mark_finished,
    mark_ready,
    release_from_dead,
)
from agents.states import RunOutcome, RunState, Strategy, SubAgentState
from agents.turn.error_text import split_error
from agents.turn.notes import CANCELLED_NOTE, CANCELLED_RESULT, CUT_BY_POLICY, lost_sub_agent
from agents.turn.options import OverBudget
from permissions.actions.questions import withdraw_batches
from permissions.actions.requests import forget_session_permissions, withdraw_requests
from permissions.models import BatchState, RequestState
from workspaces.actions import messages
from workspaces.actions.sessions import add_usage, append_session, remove_session, store_work
from workspaces.actions.workspaces import close_workspace
from workspaces.log.parts import Finish, FinishReason, Role
from workspaces.log.rows import SESSION_COLUMNS, SessionRow, session_wire
from workspaces.log.timestamps import as_seconds
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import NEVER_EXPIRES

# Needed at the end of every run, so it is one statement that two indexes serve.
_IS_LEFT = (
    "SELECT 1 FROM workspaces_workspace w WHERE w.id = %s AND w.is_open = %s"
    " AND NOT EXISTS (SELECT 1 FROM workspaces_clientclaim c WHERE c.workspace_id = w.id)"
    f" AND NOT {HAS_ACTIVE_RUNS}"
)


def close_if_left(tx: Transaction, workspace_id: str) -> bool:
    """Closes the workspace if no client claims it and nothing runs; returns whether it did.

    Parked runs do not keep it open: they continue when it is opened again.
    """
    tx.lock(workspace_id)
    is_left = bool(tx.fetch(_IS_LEFT, [workspace_id, True]))
    if is_left:
        close_workspace(tx, workspace_id)
    return is_left


def delete_if_marked(tx: Transaction, workspace_id: str, session_id: str) -> None:
    """Removes the rows of a session that was deleted while it ran."""
    rows = tx.fetch(
        f"SELECT {SESSION_COLUMNS} FROM workspaces_session WHERE id = %s AND is_deleting = %s",
        [session_id, True],
    )
    if rows:
        forget_session_permissions(tx, session_id)
        delete_runs(tx, session_id)
        remove_session(tx, workspace_id, session_wire(SessionRow(*rows[0])))
        _delete_below(tx, workspace_id, session_id)


def _delete_below(tx: Transaction, workspace_id: str, session_id: str) -> None:
    """Deletes the child sessions too; a child that still runs is erased when its run ends."""
    children = tx.fetch(
        "SELECT id FROM workspaces_session WHERE parent_session_id = %s", [session_id]
    )
    for (child_id,) in children:
        tx.execute("UPDATE workspaces_session SET is_deleting = %s WHERE id = %s", [True, child_id])
        if not unfinished_runs(tx, child_id):
            delete_if_marked(tx, workspace_id, child_id)


LOST_TOO_OFTEN = (
    f"interrupted: the server stopped {MOST_LOST_WORKERS} times during this run, which may be the"
    " reason; send the prompt again"
)


def end_run(
    tx: Transaction,
    run: RunRow,
    *,
    outcome: RunOutcome,
    message_id: str = "",
    error: str = "",
    over: OverBudget | None = None,
    has_replied: bool = False,
) -> None:
    """Marks the run as finished and appends its events. The caller then closes the session's work.

    ``has_replied``: a request to a model has ended with it, and is counted.
    The events contain no text of the message: another event of this transaction has it.
    """
    has_requests, has_batches, has_children = _what_it_leaves(tx, run.key)
    if has_requests:
        withdraw_requests(tx, run.key)
    if has_batches:
        withdraw_batches(tx, run.key)
    mark_finished(
        tx,
        run.key,
        outcome=outcome,
        message_id=message_id,
        error=error,
        over_budget=None if over is None else orjson.dumps(over.to_wire()).decode(),
        has_replied=has_replied,
    )
    if run.kind == RunKind.FLEET:
        # The worker that held the run writes a more exact ending, unless it has died.
        tx.execute(
            "UPDATE agents_subagent SET state = %s, ending = %s, ended_at = %s WHERE run_id = %s",
            [SubAgentState.ENDED.value, outcome.value, tx.now, run.key],
        )
    if outcome in {RunOutcome.FAILED, RunOutcome.INTERRUPTED, RunOutcome.OVER_BUDGET}:
        failed = {"session_id": run.session_id, "run_id": run.run_id or "", "error": error}
        if run.parent is not None:
            failed["kind"] = run.kind  # the error is in the result of its parent's call
        tx.append(run.workspace_id, Kind.AGENT_FAILED, failed, session_id=run.session_id)
    _append_finished(tx, run, outcome=outcome, message_id=message_id, error=error, over=over)
    if has_children:
        _end_children(tx, run)
    if run.parent is not None:
        _return_to(tx, run, run.parent)
    if run.is_cancelled:
        begin_rollback(tx, run)


# A statement: every run ends here, and almost none leaves anything. The states are not parameters:
# SQLite would plan the statement again each time, because partial indexes depend on their values.
_LEFT = (
    "SELECT EXISTS (SELECT 1 FROM permissions_permissionrequest"
    f" WHERE run_key = %s AND state = '{RequestState.PENDING}'),"
    " EXISTS (SELECT 1 FROM permissions_questionbatch"
    f" WHERE run_key = %s AND state = '{BatchState.PENDING}'),"
    f" {HAS_UNFINISHED_CHILDREN}"
)


def _what_it_leaves(tx: Transaction, key: int) -> tuple[bool, bool, bool]:
    """Whether a run that ends has open permission requests, open questions and child runs."""
    ((has_requests, has_batches, has_children),) = tx.fetch(_LEFT, [key, key, key])
    return bool(has_requests), bool(has_batches), bool(has_children)


def _append_finished(
    tx: Transaction,
    run: RunRow,
    *,
    outcome: RunOutcome,
    message_id: str,
    error: str = "",
    over: OverBudget | None = None,
) -> None:
    wire = run_wire(
        run,
        message_id=message_id,
        error=error,
        outcome=outcome.value,
        session_title=run.session_title,
    )
    if outcome is RunOutcome.CANCELLED and run.cancelled_by is not None:
        wire["cancelled_by"] = run.cancelled_by
    if over is not None:
        wire["budget"] = over.to_wire()
    tx.append(run.workspace_id, Kind.RUN_FINISHED, {"run": wire}, session_id=run.session_id)


def _end_children(tx: Transaction, run: RunRow) -> None:
    """Cancels the child runs: no run waits for them now."""
    note_canceller(tx, "r.parent_id = %s", [run.key], author=run.cancelled_by)
    for child in read_runs(tx, f"r.parent_id = %s AND {UNFINISHED}", [run.key]):
        tx.execute(
            "UPDATE workspaces_session SET cancel_mark = last_accept WHERE id = %s",
            [child.session_id],
        )
        if child.state != RunState.RUNNING:  # the worker of a running child ends it
            settle_cancelled(tx, child)
            close_session_work(tx, child.workspace_id, child.session_id)


def _return_to(tx: Transaction, run: RunRow, parent_key: int) -> None:
    """Adds the run's cost to the parent's session, and makes the parent ready."""
    parents = read_runs(tx, "r.id = %s", [parent_key])
    if not parents:
        return
    parent = parents[0]
    ((cost,),) = tx.fetch("SELECT cost FROM workspaces_session WHERE id = %s", [run.session_id])
    add_usage(tx, parent.session_id, cost=cost)
    append_session(tx, parent.workspace_id, parent.session_id)
    mark_ready(tx, parent_key)


# The cancelled runs of a queue that one transaction ends: more of them would hold up the writes of
# other workspaces for more than 0.1 s (`python -m tests.bench.queues`).
SETTLED_AT_ONCE = 100


def close_session_work(tx: Transaction, workspace_id: str, session_id: str) -> None:
    """Follows the end of runs: ends cancelled queued runs, updates the session, tears down.

    It ends ``SETTLED_AT_ONCE`` of them; ``settle_next`` ends the others.
    """
    is_left = tx.fetch_soon(_IS_LEFT, [workspace_id, True])
    runs = _next_runs(tx, session_id)
    if runs:
        _close(tx, workspace_id, session_id, runs)
    elif store_work(tx, workspace_id, session_id, is_busy=False) is None:
        delete_if_marked(tx, workspace_id, session_id)
        close_if_left(tx, workspace_id)
    elif is_left:
        close_workspace(tx, workspace_id)


def settle_next(tx: Transaction, workspace_id: str, session_id: str) -> bool:
    """Ends some of the cancelled runs that ``close_session_work`` has left; returns whether it did.

    Without it workers claim them, and each claim ends as many.
    """
    runs = _next_runs(tx, session_id)
    is_left = any(map(_is_settled_here, runs[:1]))
    if is_left:
        _close(tx, workspace_id, session_id, runs)
    return is_left


def _next_runs(tx: Transaction, session_id: str) -> list[RunRow]:
    return unfinished_runs(tx, session_id, limit=SETTLED_AT_ONCE + 1)


def _is_settled_here(run: RunRow) -> bool:
    return run.state == RunState.ACCEPTED and run.is_cancelled


def _close(tx: Transaction, workspace_id: str, session_id: str, runs: Sequence[RunRow]) -> None:
    cancelled = list(takewhile(_is_settled_here, runs[:SETTLED_AT_ONCE]))
    settle_queued(tx, workspace_id, session_id, cancelled)
    is_busy = len(runs) > len(cancelled)
    session = store_work(tx, workspace_id, session_id, is_busy=is_busy)
    if not is_busy:
        if session is None:  # the session is being deleted
            delete_if_marked(tx, workspace_id, session_id)
        close_if_left(tx, workspace_id)


def settle_queued(
    tx: Transaction, workspace_id: str, session_id: str, runs: Sequence[RunRow]
) -> None:
    """Ends cancelled runs of a session that no worker has begun, as ``settle_cancelled`` does.

    Their rows are written together: 4,000 take 1 s instead of 7 on SQLite, and 2 instead of 12 on
    PostgreSQL (`python -m tests.bench.queues`).
    """
    others = _with_dependants(session_id) if runs else frozenset[int | None]()
    new = messages.NewMessages(tx, workspace_id, session_id)
    ended: dict[int, str] = {}
    for run in runs:
        is_delegated = run.parent is not None or run.kind == RunKind.FLEET
        if is_delegated or run.key in others or run.started_at is not None:
            settle_cancelled(tx, run)
            continue
        message_id = ""
        if not _leaves_no_messages(run):
            new.add(Role.USER, run.user_parts(tx), run_key=run.key, author=run.author)
            message_id = new.add(Role.ASSISTANT, (_cancelled_note(tx),), run_key=run.key)
        ended[run.key] = message_id
        _append_finished(tx, run, outcome=RunOutcome.CANCELLED, message_id=message_id)
    new.store()
    mark_cancelled(tx, ended)


def _with_dependants(session_id: str) -> frozenset[int | None]:
    """Returns the runs of the session whose end undoes a turn."""
    waiting = Run.objects.filter(session_id=session_id, state=RunState.ACCEPTED)
    waiting = waiting.filter(strategy=Strategy.ROLLBACK, rewind_id=None)
    return frozenset(waiting.exclude(replaces=None).values_list("replaces", flat=True))


def settle_cancelled(tx: Transaction, run: RunRow) -> None:
    """Ends a cancelled run that no worker holds, with the messages that a worker would write."""
    note = _cancelled_note(tx)
    _settle(tx, run, note, result=CANCELLED_RESULT, outcome=RunOutcome.CANCELLED, error="")


def _cancelled_note(tx: Transaction) -> Finish:
    return Finish(FinishReason.CANCELED, as_seconds(tx.now), CANCELLED_NOTE)


def _leaves_no_messages(run: RunRow) -> bool:
    """Whether nothing of the run is shown when it ends without having begun."""
    # A prompt that was removed from the queue has its outcome before its end.
    return run.kind == RunKind.SUMMARY or run.outcome == RunOutcome.CANCELLED


def settle_interrupted(tx: Transaction, run: RunRow, error: str) -> None:
    """Ends a run whose worker stopped, and that no other worker continues."""
    note = Finish(FinishReason.ERROR, as_seconds(tx.now), "Interrupted", error)
    _settle(tx, run, note, result=error, outcome=RunOutcome.INTERRUPTED, error=error)


def settle_failed(tx: Transaction, run: RunRow, error: str) -> None:
    """Ends a run that the server could not perform."""
    note = Finish(FinishReason.ERROR, as_seconds(tx.now), *split_error(error))
    _settle(tx, run, note, result=error, outcome=RunOutcome.FAILED, error=error)


def _settle(
    tx: Transaction, run: RunRow, finish: Finish, *, result: str, outcome: RunOutcome, error: str
) -> None:
    if run.started_at is None and _leaves_no_messages(run):
        end_run(tx, run, outcome=outcome, error=error)
        return
    if run.started_at is None:
        store_prompt(tx, run)
    message_id = finish_reply(tx, run, finish)
    give_results(tx, run, dict.fromkeys(open_call_ids(tx, run), result))
    end_run(tx, run, outcome=outcome, message_id=message_id, error=error)


def rescue_run(tx: Transaction, key: int, *, worker: str, is_planned: bool = False) -> str:
    """Lets another worker continue a run whose worker has stopped or lost its registration.

    A reply that was cut is requested again. A tool that was cut is not repeated without a person's
    answer: the model gets its output so far, or the configured rule applies. ``is_planned``: the
    worker stops regularly and does not count as lost.
    Returns what was done: "ready", "interrupted", "cancelled", "failed", or "" if the run is held
    again.
    """
    where = (
        f"r.id = %s AND r.state = '{RunState.RUNNING}' AND r.worker = %s"
        " AND (r.lease_expires_at = %s OR r.lease_expires_at < %s)"
    )
    values = [key, worker, NEVER_EXPIRES, tx.now]
    rows = read_runs(tx, where, values)
    if rows:  # another worker may have rescued it before this one has the lock
        tx.lock(rows[0].workspace_id)
        rows = read_runs(tx, where, values)
    if not rows:
        return ""
    run = rows[0]
    lost = 0 if is_planned else 1
    if run.is_cancelled:
        settle_cancelled(tx, run)
        outcome = RunOutcome.CANCELLED
    elif _is_assigned(run.key):
        # Its turn ran in another process, which no worker can reach again.
        settle_failed(tx, run, lost_sub_agent(reported_tools(tx, run)))
        SubAgent.objects.filter(run_id=run.key).update(
            state=SubAgentState.ENDED, ending=Ending.LOST.value, ended_at=tx.now
        )
        outcome = RunOutcome.FAILED
    elif (run.lost_workers or 0) + lost >= MOST_LOST_WORKERS:
        settle_interrupted(tx, run, LOST_TOO_OFTEN)
        outcome = RunOutcome.INTERRUPTED
    elif not settle_cut_calls(tx, run):
        settle_interrupted(tx, run, CUT_BY_POLICY)
        outcome = RunOutcome.INTERRUPTED
    else:
        release_from_dead(tx, run.key, lost=lost)
        return RunState.READY.value
    close_session_work(tx, run.workspace_id, run.session_id)
    return outcome.value


def _is_assigned(key: int) -> bool:
    """Whether a sub-agent may have got the run's assignment, which is never sent twice."""
    return SubAgent.objects.filter(run_id=key).exclude(state=SubAgentState.STARTING).exists()
