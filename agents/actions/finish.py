"""How runs end: exactly one ``run.finished`` each, in one transaction with its last message.

Used by the runner for the run that it holds, by actions for runs that nobody
holds, and by the rescue for runs whose holder died.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from agents.actions.answers import let_go_on
from agents.actions.run_rows import RunRow, read_runs, run_wire, unfinished_runs
from agents.actions.teardown_rule import close_if_left
from agents.models import RunKind, RunOutcome, RunState, SubAgentState
from agents.turn.notes import CANCELLED_NOTE, CANCELLED_RESULT
from permissions.actions.questions import withdraw_batches
from permissions.actions.requests import forget_session_permissions, withdraw_requests
from workspaces.actions import messages
from workspaces.actions.sessions import add_usage, erase_session, tell_session
from workspaces.events.parts import (
    Finish,
    FinishReason,
    Parts,
    Role,
    ToolCall,
    ToolResult,
    finish_of,
    parts_from_wire,
    tool_calls,
    with_finish,
)
from workspaces.events.session_rows import COLUMNS as SESSION_COLUMNS
from workspaces.events.session_rows import session_of_row
from workspaces.events.types import Kind
from workspaces.storage.moments import as_seconds
from workspaces.storage.transaction import Transaction

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
            "UPDATE agents_subagent SET state = %s, ending = %s, ended_at = %s"
            " WHERE run_id = %s AND state <> %s",
            [SubAgentState.ENDED.value, outcome.value, tx.now, run.key, SubAgentState.ENDED.value],
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
    parent = read_run(tx, parent_key)
    if parent is None:
        return
    ((cost,),) = tx.fetch("SELECT cost FROM workspaces_session WHERE id = %s", [run.session_id])
    add_usage(tx, parent.session_id, prompt_tokens=0, completion_tokens=0, cost=cost)
    tell_session(tx, parent.workspace_id, parent.session_id)
    let_go_on(tx, parent_key)


def close_session_work(tx: Transaction, workspace_id: str, session_id: str) -> None:
    """After runs ended: what a cancel took behind them, the busy mark, deletion, teardown."""
    runs = unfinished_runs(tx, session_id)
    while runs and runs[0].state == RunState.ACCEPTED and runs[0].is_cancelled:
        settle_cancelled(tx, runs.pop(0))
    tx.execute(
        "UPDATE workspaces_session SET is_busy = %s, updated_at = %s WHERE id = %s",
        [bool(runs), tx.now, session_id],
    )
    tell_session(tx, workspace_id, session_id)
    if not runs:
        erase_if_marked(tx, workspace_id, session_id)
        close_if_left(tx, workspace_id)


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
            "UPDATE agents_run SET folded_into_id = NULL WHERE folded_into_id IN"
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


def store_prompt(tx: Transaction, run: RunRow, *, run_key: int | None = None) -> str:
    """The user message of a run; returns its id."""
    message = messages.create_message(
        tx,
        run.workspace_id,
        run.session_id,
        role=Role.USER,
        parts=run.user_parts,
        run_key=run_key or run.key,
    )
    return str(message["id"])


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
    note = Finish(FinishReason.ERROR, as_seconds(tx.now), error)
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


def _last_reply(tx: Transaction, run: RunRow) -> tuple[str, Parts, bool] | None:
    """The run's newest assistant message: its id, its parts, whether it is finished."""
    rows = tx.fetch(
        "SELECT id, parts, is_finished FROM workspaces_message"
        " WHERE session_id = %s AND run_key = %s AND role = 'assistant'"
        " ORDER BY position DESC LIMIT 1",
        [run.session_id, run.key],
    )
    if not rows:
        return None
    message_id, parts, is_finished = rows[0]
    return message_id, parts_from_wire(orjson.loads(parts)), bool(is_finished)


@dataclass(frozen=True, slots=True)
class LastWords:
    message_id: str
    reason: FinishReason | None


def last_words(tx: Transaction, run: RunRow) -> LastWords | None:
    """The run's newest reply, as its end tells it."""
    last = _last_reply(tx, run)
    if last is None:
        return None
    finish = finish_of(last[1])
    return LastWords(last[0], finish.reason if finish else None)


def open_call_ids(tx: Transaction, run: RunRow) -> list[str]:
    """The calls of the run's newest reply that have no result yet."""
    last = _last_reply(tx, run)
    if last is None:
        return []
    done = {part.tool_call_id for part in _results(tx, run)}
    return [call.id for call in tool_calls(last[1]) if call.id not in done]


def _results(tx: Transaction, run: RunRow) -> list[ToolResult]:
    rows = tx.fetch(
        "SELECT parts FROM workspaces_message WHERE session_id = %s AND run_key = %s"
        " AND role = 'tool'",
        [run.session_id, run.key],
    )
    parts = [part for (raw,) in rows for part in parts_from_wire(orjson.loads(raw))]
    return [part for part in parts if isinstance(part, ToolResult)]


def give_results(tx: Transaction, run: RunRow, contents: Mapping[str, str]) -> None:
    """Writes errors as the results of calls whose tools did not come to their end."""
    if not contents:
        return
    last = _last_reply(tx, run)
    names = {call.id: call.name for call in tool_calls(last[1])} if last else {}
    for call_id, content in contents.items():
        result = ToolResult(call_id, names.get(call_id, ""), content, is_error=True)
        messages.create_message(
            tx,
            run.workspace_id,
            run.session_id,
            role=Role.TOOL,
            parts=(result, Finish(FinishReason.STOP)),
            run_key=run.key,
        )


def finish_reply(
    tx: Transaction, run: RunRow, finish: Finish, *, model: str = "", provider: str = ""
) -> str:
    """Gives the run's newest reply this finish, or adds an empty reply that has it.

    Returns the message's id. A reply that had ended regularly takes the
    new finish: the turn stopped behind it.
    """
    last = _last_reply(tx, run)
    if last is not None:
        message_id, parts, is_finished = last
        if is_finished:
            changed = with_finish(parts, finish)
            messages.change_message(tx, run.workspace_id, message_id, parts=changed)
        else:
            closed = with_finish(whole_calls(parts), finish)
            messages.finish_message(tx, run.workspace_id, message_id, parts=closed)
        return message_id
    message = messages.create_message(
        tx,
        run.workspace_id,
        run.session_id,
        role=Role.ASSISTANT,
        parts=(finish,),
        run_key=run.key,
        model=model,
        provider=provider,
    )
    return str(message["id"])


def whole_calls(parts: Parts) -> Parts:
    """Without the calls that the model had not finished writing: they were never made."""
    return tuple(part for part in parts if not isinstance(part, ToolCall) or part.finished)


def read_run(tx: Transaction, key: int) -> RunRow | None:
    return next(iter(read_runs(tx, "r.id = %s", [key])), None)
