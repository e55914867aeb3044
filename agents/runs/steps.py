"""Writes the steps of a run, each in one transaction.

Every write names the fence of the claim; a worker that lost its lease writes nothing. A step whose
run the cancel mark covers writes nothing either and returns ``is_cancelled``. The run then ends as
cancelled, so that a cancel counts until the last commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agents.config.settings import ModelChoice
from agents.llm.usage import RequestUsage
from agents.models import UsageKind
from agents.runs.finish import close_session_work, end_run
from agents.runs.lease import Lease, require_lease
from agents.runs.messages import (
    answered_calls,
    append_progress,
    finish_reply,
    fold_prompts,
    give_results,
    last_words,
    open_call_ids,
    restart_cut_reply,
    store_result,
)
from agents.runs.objects.run_objects import run_wire
from agents.runs.objects.run_timeline import ReplyTimes, store_call_steps, store_reply_step
from agents.runs.rows import RunRow, count_step, spent_by, store_open_calls
from agents.runs.transitions import park, release
from agents.runs.usage import store_usage
from agents.states import RunOutcome, StepKind
from agents.tools.contract import FileMark
from agents.turn.effects import (
    CallModel,
    Effect,
    End,
    GiveResult,
    Park,
    Release,
    RunTool,
    SaveReply,
    SaveResult,
    Summarise,
)
from agents.turn.error_text import split_error
from agents.turn.notes import CANCELLED_RESULT
from agents.turn.options import OverBudget, over_budget
from workspaces.actions import messages
from workspaces.actions.files import record_read
from workspaces.actions.sessions import append_session
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
    """The model's whole reply. Without a message id, no reply was begun yet."""

    message_id: str
    parts: Parts
    reason: FinishReason
    usage: RequestUsage = field(default_factory=RequestUsage)
    context_tokens: int = 0  # the size of the conversation with this reply
    is_summary: bool = False
    times: ReplyTimes | None = None
    begun: Mapping[str, Any] | None = None  # the message as it was begun, if the caller has it


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
    # Calls whose tools start after this step's commit, with their rules.
    begins: Mapping[str, str] = field(default_factory=dict)
    start: ReplyStart | None = None
    parks: bool = False
    releases: bool = False
    end: End | None = None
    reads: Mapping[str, FileMark] = field(default_factory=dict)  # files that the calls have read
    started: Mapping[str, int] = field(default_factory=dict)  # when the tools of calls started
    model: str = ""  # for an empty reply that only holds the end
    provider: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a step's transaction."""

    is_cancelled: bool = False  # nothing was written: the cancel mark covers the run
    stream_number: int = 0
    message: Mapping[str, Any] | None = None  # the reply that was begun
    has_ended: bool = False  # the run is over its budget: the reply was not begun
    folded: bool = False  # the transcript has more messages: it must be read again
    answered: tuple[str, ...] = ()  # calls answered before the run could park: it is not parked


def step_of(  # noqa: C901  a case an effect
    effects: Iterable[Effect],
    *,
    choice: ModelChoice | None,
    results: Mapping[str, ToolResult],
    reads: Mapping[str, Mapping[str, FileMark]],
    cut_rules: Mapping[str, str],
    reply_write: Callable[[FinishReason], ReplyWrite | None],
    started: Mapping[str, int] = MappingProxyType({}),
) -> Step | None:
    """Returns the step with these effects; ``None`` if there is nothing to write.

    ``choice``: the model, if one is available. ``reads``: the files that calls have read.
    ``cut_rules``: of calls that may not run again after a crash; only their start is written.
    """
    reply: ReplyWrite | None = None
    given: list[ToolResult] = []
    refusals: dict[str, str] = {}
    begins: dict[str, str] = {}
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
                if known is not None:  # the tool ended just before the cancel
                    given.append(known)
                else:
                    refusals[call_id] = content
            case RunTool(call_id):
                if call_id in cut_rules:
                    begins[call_id] = cut_rules[call_id]
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
        started={i: started[i] for result in given if (i := result.tool_call_id) in started},
    )


class OfferedEnd:
    """The end of a run, for the transaction that cancels it.

    Until it is settled, the run handles no input and adds nothing to its reply.
    """

    def __init__(self, held: Lease, step: Step, on_settled: Callable[[bool | None], None]) -> None:
        self.step = step
        self.is_stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._held = held
        self._on_settled = on_settled

    def write(self, tx: Transaction) -> None:
        """Raises ``LeaseLost``."""
        write_step(tx, self._held, self.step)

    def settle(self, is_stored: bool | None) -> None:
        """Lets the run continue or end, after the transaction. ``None``: its outcome is unknown."""
        self.is_stored.set_result(bool(is_stored))
        self._on_settled(is_stored)


def write_step(tx: Transaction, held: Lease, step: Step) -> Written:
    """Writes a step's durable effects, all or none. Raises ``LeaseLost``."""
    return write_step_of(tx, require_lease(tx, held), step)


def write_step_of(tx: Transaction, run: RunRow, step: Step) -> Written:
    """As ``write_step``, in a transaction that has checked the lease already."""
    ends_cancelled = step.end is not None and step.end.outcome is RunOutcome.CANCELLED
    if run.is_cancelled and not ends_cancelled:
        return Written(is_cancelled=True)
    _write_messages(tx, run, step)
    if step.begins:
        store_open_calls(tx, run.key, {**run.open_calls, **step.begins})
    if step.parks:
        if answered := answered_calls(tx, run):
            return Written(answered=answered)
        park(tx, run.key)
        tx.append(
            run.workspace_id, Kind.RUN_PARKED, {"run": run_wire(run)}, session_id=run.session_id
        )
    elif step.releases:
        release(tx, run.key)
    elif step.end is not None:
        _end(tx, run, step, step.end)
    elif step.start is not None:
        if over := _over_budget(tx, run):
            _end_over_budget(tx, run, step, over)
            return Written(has_ended=True)
        return _start_reply(tx, run, step.start)
    return Written()


def _over_budget(tx: Transaction, run: RunRow) -> OverBudget | None:
    """Returns why another request to a model is not allowed."""
    budget = run.options.budget
    return over_budget(budget, spent_by(tx, run.key)) if budget else None


def _end_over_budget(tx: Transaction, run: RunRow, step: Step, over: OverBudget) -> None:
    end = End(RunOutcome.OVER_BUDGET, FinishReason.ERROR, error=over.sentence)
    message_id = _close_last_reply(tx, run, step, end)
    end_run(tx, run, outcome=end.outcome, message_id=message_id, error=over.sentence, over=over)
    close_session_work(tx, run.workspace_id, run.session_id)


def _write_messages(tx: Transaction, run: RunRow, step: Step) -> None:
    if step.reply is not None and step.reply.message_id:
        reply = step.reply
        finish = Finish(reply.reason, as_seconds(tx.now))
        parts = (*reply.parts, finish) if step.end is None else _closing(tx, reply, step.end)
        if reply.begun is None:
            messages.finish_message(tx, run.workspace_id, reply.message_id, parts=parts)
        else:
            messages.finish_begun_message(tx, run.workspace_id, reply.begun, parts=parts)
        _store_usage(tx, run, reply)
        _store_times(tx, run, step, reply)
        if step.end is None:  # otherwise the end counts it
            count_step(tx, run.key)
        if reply.is_summary:
            append_progress(tx, run, "", done=True)
    for result in step.results:
        store_result(tx, run, result)
    store_call_steps(tx, run.key, step.results, step.started)
    for path, mark in step.reads.items():
        record_read(tx, run.session_id, path=path, mtime_ns=mark.mtime_ns, size=mark.size)
    refusals = dict(step.refusals)
    if step.end is not None and step.reply is not None and _may_have_calls(step.reply):
        # A reply that was cut may contain whole calls, which never ran: give them results.
        cut = step.end.error or CANCELLED_RESULT
        refusals |= dict.fromkeys(open_call_ids(tx, run), cut)
    give_results(tx, run, refusals)
    done = {result.tool_call_id for result in step.results} | set(step.refusals)
    if run.open_calls.keys() & done:
        still_open = {key: rule for key, rule in run.open_calls.items() if key not in done}
        store_open_calls(tx, run.key, still_open)
    if step.end is None and step.reply is not None:  # the session's usage has changed
        append_session(tx, run.workspace_id, run.session_id)


def _store_times(tx: Transaction, run: RunRow, step: Step, reply: ReplyWrite) -> None:
    outcome = (step.end and step.end.reason) or reply.reason
    if reply.times is not None:  # else it is a sub-agent's, whose requests are its own
        store_reply_step(
            tx,
            run.key,
            reply.times,
            reply.usage,
            kind=StepKind.SUMMARY if reply.is_summary else StepKind.REPLY,
            served_by=(step.provider, step.model),
            message_id=reply.message_id,
            outcome=outcome.value,
        )


def _may_have_calls(reply: ReplyWrite) -> bool:
    return not reply.message_id or bool(tool_calls(reply.parts))


def _store_usage(tx: Transaction, run: RunRow, reply: ReplyWrite) -> None:
    """Stores what the reply has used, and the size of the conversation if the reply is whole."""
    is_whole = reply.reason not in {FinishReason.CANCELED, FinishReason.ERROR}
    tokens = reply.usage.completion_tokens if reply.is_summary else reply.context_tokens or None
    store_usage(
        tx,
        run,
        reply.usage,
        kind=UsageKind.SUMMARY if reply.is_summary else UsageKind.REPLY,
        context_tokens=tokens if is_whole else None,
        summary_message_id=reply.message_id if is_whole and reply.is_summary else None,
    )


def _closing(tx: Transaction, reply: ReplyWrite, end: End) -> Parts:
    return (*reply.parts, _finish(tx, end.reason or reply.reason, end))


def _finish(tx: Transaction, reason: FinishReason, end: End) -> Finish:
    title, details = split_error(end.error) if end.error else (end.note, "")
    return Finish(reason, as_seconds(tx.now), title, details)


def _end(tx: Transaction, run: RunRow, step: Step, end: End) -> None:
    if step.reply is not None and step.reply.message_id:
        message_id = step.reply.message_id  # the reply was stored with this end
    else:
        message_id = _close_last_reply(tx, run, step, end)
    end_run(
        tx,
        run,
        outcome=end.outcome,
        message_id=message_id,
        error=end.error,
        has_replied=step.reply is not None and bool(step.reply.message_id),
    )
    close_session_work(tx, run.workspace_id, run.session_id)


def _close_last_reply(tx: Transaction, run: RunRow, step: Step, end: End) -> str:
    """Sets the newest reply's finish to the end's reason if it differs; returns the reply's id."""
    words = last_words(tx, run)
    if words is not None and end.reason in {None, words.reason}:
        return words.message_id
    finish = _finish(tx, end.reason or FinishReason.END_TURN, end)
    return finish_reply(tx, run, finish, model=step.model, provider=step.provider)


def _start_reply(tx: Transaction, run: RunRow, start: ReplyStart) -> Written:
    by: dict[str, Any] = {"model": start.model, "provider": start.provider}
    by["is_summary"] = start.is_summary
    # At the first claim no worker has left a reply.
    again = restart_cut_reply(tx, run, **by) if run.fence > 1 else None
    # A prompt that joined a reply that starts again would come after it.
    folded = again is None and start.fold and bool(fold_prompts(tx, run))
    number, message = again or messages.start_message(
        tx, run.workspace_id, run.session_id, run_key=run.key, **by
    )
    if start.is_summary:
        append_progress(tx, run, "Summarizing the session", done=False)
    return Written(stream_number=number, message=message, folded=folded)
