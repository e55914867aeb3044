"""Writes the steps of a run: one transaction a step.

Every write names the fence of the claim; a worker that lost its lease writes nothing. A step that
finds its session's cancel mark writes nothing either and returns so, and the run then ends as
cancelled: no cancel comes too late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from agents.config.settings import ModelChoice
from agents.models import RunKind, RunOutcome, RunState
from agents.runs.finish import close_session_work, end_run, settle_cancelled
from agents.runs.lease import Lease, require_lease
from agents.runs.messages import (
    finish_reply,
    fold_prompts,
    give_results,
    last_words,
    open_call_ids,
    store_prompt,
    store_result,
)
from agents.runs.resume import answered_calls
from agents.runs.rows import RunRow, run_wire
from agents.tools.contract import FileMark
from agents.turn.effects import (
    CallModel,
    Effect,
    End,
    GiveResult,
    Outcome,
    Park,
    Release,
    RunTool,
    SaveReply,
    SaveResult,
    Summarise,
)
from agents.turn.error_text import split_error
from agents.turn.notes import CANCELLED_RESULT
from workspaces.actions import messages
from workspaces.actions.files import record_read
from workspaces.actions.sessions import add_usage, set_context, set_last_request, tell_session
from workspaces.log.parts import (
    Finish,
    FinishReason,
    Parts,
    ToolResult,
    tool_calls,
)
from workspaces.log.timestamps import as_seconds
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind


@dataclass(frozen=True, slots=True)
class ReplyWrite:
    """The model's reply, whole. Without an id no reply was begun yet."""

    message_id: str
    parts: Parts
    reason: FinishReason
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    context_tokens: int = 0  # what the conversation takes of the window with it
    is_summary: bool = False


@dataclass(frozen=True, slots=True)
class ReplyStart:
    model: str
    provider: str
    fold: bool = False
    is_summary: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """The durable effects of one advance of the turn."""

    reply: ReplyWrite | None = None
    results: Sequence[ToolResult] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)  # call id → why it has no result
    begins: Sequence[str] = ()  # calls whose tools start after this
    start: ReplyStart | None = None
    parks: bool = False
    releases: bool = False
    end: End | None = None
    reads: Mapping[str, FileMark] = field(default_factory=dict)  # files, by the results' tools
    model: str = ""  # for a reply that is made only to hold the end
    provider: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What a step's transaction says back."""

    is_cancelled: bool = False  # nothing was written: the cancel mark covers the run
    stream_number: int = 0
    message: Mapping[str, Any] | None = None  # the reply that was begun
    folded: bool = False  # prompts were taken in: the transcript has more messages
    answered: tuple[str, ...] = ()  # calls whose answers came before parking: not parked


def begin_run(tx: Transaction, held: Lease) -> RunRow | None:
    """Stores the prompt of a run that starts. ``None``: it was cancelled before, and is ended."""
    run = require_lease(tx, held)
    if run.is_cancelled:
        settle_cancelled(tx, run)
        close_session_work(tx, run.workspace_id, run.session_id)
        return None
    if run.started_at is not None:
        tx.append(
            run.workspace_id, Kind.RUN_RESUMED, {"run": run_wire(run)}, session_id=run.session_id
        )
        return run
    if run.kind != RunKind.SUMMARY:
        store_prompt(tx, run)
    tx.execute("UPDATE agents_run SET started_at = %s WHERE id = %s", [tx.now, run.key])
    tx.append(run.workspace_id, Kind.RUN_STARTED, {"run": run_wire(run)}, session_id=run.session_id)
    if run.was_queued and run.run_id is None and run.kind == RunKind.PROMPT:
        # What waited with it and asks for no turn of its own goes along.
        fold_prompts(tx, run)
    return run


def write_step(tx: Transaction, held: Lease, step: Step) -> Written:
    """Carries a step's durable effects out, all or none."""
    run = require_lease(tx, held)
    ends_cancelled = step.end is not None and step.end.outcome is Outcome.CANCELLED
    if run.is_cancelled and not ends_cancelled:
        return Written(is_cancelled=True)
    _write_said(tx, run, step)
    if step.begins:
        _mark_open(tx, run, [*run.open_calls, *step.begins])
    if step.parks:
        if answered := answered_calls(tx, run, _waiting(tx, run)):
            return Written(answered=tuple(answered))
        _give_up(tx, run, RunState.PARKED, Kind.RUN_PARKED)
    elif step.releases:
        _give_up(tx, run, RunState.READY, None)
    elif step.end is not None:
        _end(tx, run, step, step.end)
    elif step.start is not None:
        return _start_reply(tx, run, step.start)
    return Written()


def _write_said(tx: Transaction, run: RunRow, step: Step) -> None:
    if step.reply is not None and step.reply.message_id:
        reply = step.reply
        finish = Finish(reply.reason, as_seconds(tx.now))
        parts = (*reply.parts, finish) if step.end is None else _closing(tx, reply, step.end)
        messages.finish_message(tx, run.workspace_id, reply.message_id, parts=parts)
        if reply.prompt_tokens or reply.completion_tokens or reply.cost:
            add_usage(
                tx,
                run.session_id,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                cost=reply.cost,
            )
        if reply.prompt_tokens or reply.completion_tokens:  # some providers report nothing
            set_last_request(
                tx,
                run.session_id,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
            )
        _keep_context(tx, run, reply)
    for result in step.results:
        store_result(tx, run, result)
    for path, mark in step.reads.items():
        record_read(tx, run.session_id, path=path, mtime_ns=mark.mtime_ns, size=mark.size)
    refusals = dict(step.refusals)
    if step.end is not None and step.reply is not None and _may_have_calls(step.reply):
        # A reply that was cut may hold whole calls: they were never made, and say so.
        cut = step.end.error or CANCELLED_RESULT
        refusals |= dict.fromkeys(open_call_ids(tx, run), cut)
    give_results(tx, run, refusals)
    done = {result.tool_call_id for result in step.results} | set(step.refusals)
    if run.open_calls & done:
        _mark_open(tx, run, run.open_calls - done)
    if step.end is None and step.reply is not None:  # its usage
        tell_session(tx, run.workspace_id, run.session_id)


def _may_have_calls(reply: ReplyWrite) -> bool:
    return not reply.message_id or bool(tool_calls(reply.parts))


def _keep_context(tx: Transaction, run: RunRow, reply: ReplyWrite) -> None:
    is_whole = reply.reason not in {FinishReason.CANCELED, FinishReason.ERROR}
    if reply.is_summary:
        if is_whole:
            set_context(
                tx,
                run.session_id,
                tokens=reply.completion_tokens,
                summary_message_id=reply.message_id,
            )
        _tell_summary(tx, run, "", done=True)
    elif is_whole and reply.context_tokens:
        set_context(tx, run.session_id, tokens=reply.context_tokens)


def _tell_summary(tx: Transaction, run: RunRow, progress: str, *, done: bool) -> None:
    told = {"session_id": run.session_id, "progress": progress, "done": done}
    tx.append(run.workspace_id, Kind.SUMMARY_PROGRESSED, told, session_id=run.session_id)


def _closing(tx: Transaction, reply: ReplyWrite, end: End) -> Parts:
    return (*reply.parts, _finish(tx, end.reason or reply.reason, end))


def _finish(tx: Transaction, reason: FinishReason, end: End) -> Finish:
    title, details = split_error(end.error) if end.error else (end.note, "")
    return Finish(reason, as_seconds(tx.now), title, details)


def _mark_open(tx: Transaction, run: RunRow, call_ids: Collection[str]) -> None:
    tx.execute(
        "UPDATE agents_run SET open_calls = %s WHERE id = %s",
        [orjson.dumps(list(call_ids)).decode(), run.key],
    )


def _give_up(tx: Transaction, run: RunRow, state: RunState, kind: Kind | None) -> None:
    tx.execute(
        "UPDATE agents_run SET state = %s, worker = '', lease_expires_at = 0 WHERE id = %s",
        [state.value, run.key],
    )
    if kind is not None:
        tx.append(run.workspace_id, kind, {"run": run_wire(run)}, session_id=run.session_id)


def _end(tx: Transaction, run: RunRow, step: Step, end: End) -> None:
    if step.reply is not None and step.reply.message_id:
        message_id = step.reply.message_id  # it was stored with this end
    else:
        message_id = _close_last_reply(tx, run, step, end)
    end_run(
        tx,
        run,
        outcome=RunOutcome(end.outcome.value),
        message_id=message_id,
        error=end.error,
    )
    close_session_work(tx, run.workspace_id, run.session_id)


def _close_last_reply(tx: Transaction, run: RunRow, step: Step, end: End) -> str:
    """Gives the reply the end's reason where it has another one; returns the reply's id."""
    words = last_words(tx, run)
    if words is not None and end.reason in {None, words.reason}:
        return words.message_id
    finish = _finish(tx, end.reason or FinishReason.END_TURN, end)
    return finish_reply(tx, run, finish, model=step.model, provider=step.provider)


def _waiting(tx: Transaction, run: RunRow) -> list[str]:
    """The calls that have no result yet and whose tools were not begun."""
    return [call_id for call_id in open_call_ids(tx, run) if call_id not in run.open_calls]


def _start_reply(tx: Transaction, run: RunRow, start: ReplyStart) -> Written:
    folded = start.fold and bool(fold_prompts(tx, run))
    number, message = messages.start_message(
        tx,
        run.workspace_id,
        run.session_id,
        run_key=run.key,
        model=start.model,
        provider=start.provider,
        is_summary=start.is_summary,
    )
    if start.is_summary:
        _tell_summary(tx, run, "Summarizing the session", done=False)
    return Written(stream_number=number, message=message, folded=folded)


def step_of(  # noqa: C901  a case an effect
    effects: Iterable[Effect],
    *,
    choice: ModelChoice | None,
    results: Mapping[str, ToolResult],
    reads: Mapping[str, Mapping[str, FileMark]],
    only_reading: Container[str],
    reply_write: Callable[[FinishReason], ReplyWrite | None],
) -> Step | None:
    """``None`` where nothing is to be written. ``choice``: the model, if one can be had.

    ``reads``: the files that calls have read. ``only_reading``: calls that may be begun
    again after a crash, so nothing is written when they begin.
    """
    reply: ReplyWrite | None = None
    given: list[ToolResult] = []
    refusals: dict[str, str] = {}
    begins: list[str] = []
    start: ReplyStart | None = None
    end: End | None = None
    parks = releases = False
    for effect in effects:
        match effect:
            case SaveReply():
                reply = reply_write(effect.reason)
            case SaveResult():
                given.append(results[effect.call_id])
            case GiveResult(call_id, content):
                known = results.get(call_id)
                if known is not None:  # it came to its end just before the cancel
                    given.append(known)
                else:
                    refusals[call_id] = content
            case RunTool(call_id):
                if call_id not in only_reading:
                    begins.append(call_id)
            case CallModel() if choice is not None:
                start = ReplyStart(choice.model, choice.provider, fold=effect.fold)
            case Summarise() if choice is not None:
                start = ReplyStart(choice.model, choice.provider, is_summary=True)
            case Park():
                parks = True
            case Release():
                releases = True
            case End():
                end = effect
            case _:
                pass
    if not any((reply, given, refusals, begins, start, parks, releases, end)):
        return None
    return Step(
        reply,
        given,
        refusals,
        begins,
        start,
        parks=parks,
        releases=releases,
        end=end,
        model=choice.model if choice is not None else "",
        provider=choice.provider if choice is not None else "",
        reads={
            path: mark
            for result in given
            for path, mark in reads.get(result.tool_call_id, {}).items()
        },
    )
