"""A run's stored messages: stores prompts and results, and closes an unfinished reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from agents.runs.objects.run_objects import run_wire
from agents.runs.rows import (
    MAY_BE_FOLDED,
    RunRow,
    delegations_ended,
    is_of,
    read_runs,
)
from agents.runs.transitions import mark_folded
from agents.tools.contract import ToolOutcome
from agents.tools.files.diffs import unified
from agents.turn.notes import denied_result
from agents.turn.transcript import TurnMessage
from permissions.models import BatchState, PermissionRequest, QuestionBatch, RequestState
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
from workspaces.log.timestamps import as_seconds
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import PermissionMode
from workspaces.storable import storable_json, storable_text

# A run that as many workers lost ends: it may be the reason why they stopped.
MOST_LOST_WORKERS = 5
REPLY_CUT = "The server stopped while the model replied."


def store_prompt(tx: Transaction, run: RunRow, *, run_key: int | None = None) -> TurnMessage:
    """Stores the user message of a run, and returns it."""
    parts = run.user_parts(tx)
    message = messages.create_message(
        tx,
        run.workspace_id,
        run.session_id,
        role=Role.USER,
        parts=parts,
        run_key=run_key or run.key,
        author=run.author,
    )
    return TurnMessage(message["id"], Role.USER, parts)


def fold_prompts(tx: Transaction, run: RunRow) -> list[str]:
    """Folds the queued prompts that may join this run into it; returns their texts."""
    waiting = read_runs(tx, f"r.session_id = %s AND {MAY_BE_FOLDED}", [run.session_id])
    waiting = [other for other in waiting if other.key != run.key and _may_join(run, other)]
    for other in waiting:
        store_prompt(tx, other, run_key=run.key)
        mark_folded(tx, other.key, into=run.key)
        folded = run_wire(other, folded_into=run.key)
        tx.append(run.workspace_id, Kind.RUN_FOLDED, {"run": folded}, session_id=run.session_id)
    return [other.prompt for other in waiting]


def _may_join(run: RunRow, other: RunRow) -> bool:
    """Whether a prompt may use what this run has: the grants of its author, a permission mode."""
    is_free = run.options.permission_mode in {"", PermissionMode.NORMAL}
    return is_free and not other.is_cancelled and is_of(run.author, other.author)


def _last_reply(tx: Transaction, run: RunRow) -> tuple[str, Parts, bool] | None:
    """Returns id and parts of the run's newest assistant message, and whether it is finished."""
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
    """Returns the id and the finish reason of the run's newest reply."""
    last = _last_reply(tx, run)
    if last is None:
        return None
    finish = finish_of(last[1])
    return LastWords(last[0], finish.reason if finish else None)


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed attempt at a reply, and the pause before the next one."""

    attempt: int  # the number of the next attempt
    attempts: int  # the most attempts
    delay_seconds: float
    reason: str


def restart_cut_reply(
    tx: Transaction, run: RunRow, *, model: str, provider: str, is_summary: bool
) -> tuple[int, dict[str, Any]] | None:
    """Clears the reply that the run's last worker left open, so that it is requested again.

    Returns its stream number and its message; ``None`` if there is no such reply. One of the other
    kind ends instead: the conversation needs a summary now, or needs none any longer.
    """
    left = tx.fetch(
        "SELECT id, is_summary FROM workspaces_message WHERE session_id = %s AND run_key = %s"
        " AND is_finished = %s",
        [run.session_id, run.key, False],
    )
    if not left:
        return None
    ((message_id, was_summary),) = left
    if bool(was_summary) is not is_summary:
        note = Finish(FinishReason.ERROR, as_seconds(tx.now), "Interrupted", REPLY_CUT)
        finish_reply(tx, run, note)
        if was_summary:
            append_progress(tx, run, "", done=True)
        return None
    retry = Retry(1 + max(1, run.lost_workers or 0), MOST_LOST_WORKERS, 0.0, REPLY_CUT)
    return messages.restart_message(
        tx, run.workspace_id, message_id, retry=asdict(retry), served_by=(model, provider)
    )


def append_progress(tx: Transaction, run: RunRow, progress: str, *, done: bool) -> None:
    """Appends the progress of a summary."""
    facts = {"session_id": run.session_id, "progress": progress, "done": done}
    tx.append(run.workspace_id, Kind.SUMMARY_PROGRESSED, facts, session_id=run.session_id)


def open_calls_of(tx: Transaction, run: RunRow) -> list[ToolCall]:
    """Returns the calls of the run's newest reply that have no result yet."""
    last = _last_reply(tx, run)
    if last is None:
        return []
    done = {part.tool_call_id for part in _results(tx, run)}
    return [call for call in tool_calls(last[1]) if call.id not in done]


def open_call_ids(tx: Transaction, run: RunRow) -> list[str]:
    return [call.id for call in open_calls_of(tx, run)]


def reported_tools(tx: Transaction, run: RunRow) -> list[str]:
    """Returns the tools of the calls in the run's newest reply."""
    last = _last_reply(tx, run)
    return [] if last is None else [call.name for call in tool_calls(last[1])]


def answered_calls(tx: Transaction, run: RunRow) -> tuple[str, ...]:
    """Returns the calls whose tools have not started and whose answer or delegation has come."""
    waiting = [call_id for call_id in open_call_ids(tx, run) if call_id not in run.open_calls]
    # A call may be allowed first and then start a delegation, so what is read later counts.
    has_come: dict[str, bool] = {}
    requests = PermissionRequest.objects.filter(run_key=run.key, is_replaced=False)
    batches = QuestionBatch.objects.filter(run_key=run.key)
    for states, pending in (
        (requests.values_list("tool_call_id", "state"), RequestState.PENDING),
        (batches.values_list("tool_call_id", "state"), BatchState.PENDING),
    ):
        has_come |= {call_id: state != pending for call_id, state in states}
    has_come |= delegations_ended(tx, run.key)
    return tuple(call_id for call_id in waiting if has_come.get(call_id))


def _results(tx: Transaction, run: RunRow) -> list[ToolResult]:
    rows = tx.fetch(
        "SELECT parts FROM workspaces_message WHERE session_id = %s AND run_key = %s"
        " AND role = 'tool'",
        [run.session_id, run.key],
    )
    parts = [part for (raw,) in rows for part in parts_from_wire(orjson.loads(raw))]
    return [part for part in parts if isinstance(part, ToolResult)]


def give_results(tx: Transaction, run: RunRow, contents: Mapping[str, str]) -> None:
    """Writes errors as the results of calls whose tools did not finish."""
    if not contents:
        return
    last = _last_reply(tx, run)
    names = {call.id: call.name for call in tool_calls(last[1])} if last else {}
    for call_id, content in contents.items():
        store_result(tx, run, ToolResult(call_id, names.get(call_id, ""), content, is_error=True))


def store_result(tx: Transaction, run: RunRow, result: ToolResult) -> None:
    """Stores a call's result as a message of its own."""
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

    Returns the message's id. A reply that had ended regularly gets the new finish too,
    because the turn stopped after it.
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
    """Returns the parts without the calls that the model had not finished writing."""
    return tuple(part for part in parts if not isinstance(part, ToolCall) or part.finished)


def result_of(call: ToolCall, outcome: ToolOutcome) -> ToolResult:
    metadata = ""
    if outcome.metadata is not None:
        metadata = storable_json(orjson.dumps(dict(outcome.metadata), default=str)).decode()
    return ToolResult(
        call.id,
        call.name,
        storable_text(outcome.content),
        metadata=metadata,
        is_error=outcome.is_error,
        data=outcome.data,
        mime_type=outcome.mime_type,
    )


def failure(call: ToolCall, content: str) -> ToolResult:
    return ToolResult(call.id, call.name, content, is_error=True)


def denied(call: ToolCall, params: Mapping[str, Any], reason: str) -> ToolResult:
    """Returns a denied call's result, with the diff of the file change that was denied."""
    before, after = params.get("old_content"), params.get("new_content")
    metadata: dict[str, Any] | None = None
    if isinstance(before, str) and isinstance(after, str):
        diff = unified(before, after, path=str(params.get("file_path", "")))
        metadata = {
            "old_content": before,
            "new_content": after,
            "diff": diff.text,
            "additions": diff.additions,
            "removals": diff.removals,
        }
    return result_of(call, ToolOutcome(denied_result(reason), is_error=True, metadata=metadata))
