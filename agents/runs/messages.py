"""A run's stored messages: stores prompts and results, and closes an unfinished reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from agents.models import RunOutcome
from agents.runs.rows import RunRow, read_runs, run_wire
from workspaces.actions import messages
from workspaces.log.parts import (
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
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind


def store_prompt(tx: Transaction, run: RunRow, *, run_key: int | None = None) -> None:
    """Stores the user message of a run."""
    messages.create_message(
        tx,
        run.workspace_id,
        run.session_id,
        role=Role.USER,
        parts=run.user_parts(tx),
        run_key=run_key or run.key,
    )


def fold_prompts(tx: Transaction, run: RunRow) -> list[str]:
    """Takes the queued prompts without a ``run_id`` into this run; returns their texts."""
    waiting = read_runs(
        tx,
        "r.session_id = %s AND r.state = 'accepted' AND r.run_id IS NULL AND r.kind = 'prompt'",
        [run.session_id],
    )
    for other in waiting:
        store_prompt(tx, other, run_key=run.key)
        tx.execute(
            "UPDATE agents_run SET state = 'finished', outcome = %s, folded_into_id = %s,"
            " started_at = %s, finished_at = %s WHERE id = %s",
            [RunOutcome.FOLDED.value, run.key, tx.now, tx.now, other.key],
        )
        folded = run_wire(other, folded_into=run.key)
        tx.append(run.workspace_id, Kind.RUN_FOLDED, {"run": folded}, session_id=run.session_id)
    return [other.prompt for other in waiting]


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
        store_result(tx, run, ToolResult(call_id, names.get(call_id, ""), content, is_error=True))


def store_result(tx: Transaction, run: RunRow, result: ToolResult) -> None:
    """A call's result, as a message of its own."""
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
