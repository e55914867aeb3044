"""The turn as a pure machine: ``advance(state, input) → (state, effects)``.

A turn calls the model, runs the calls of its reply, and calls it again until
it stops. When the conversation nearly fills the model's window, or the model
reports that it does not fit, a summary comes between two steps. The stored
messages are the state: after a crash, ``rebuild`` makes the same state from
them, and every call without a result waits again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from agents.states import RunOutcome
from agents.turn.effects import (
    AbortWork,
    CallModel,
    CheckCall,
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
from agents.turn.inputs import (
    Allowed,
    Answered,
    AnswerNeeded,
    Begun,
    CancelSeen,
    Denied,
    HandOver,
    Input,
    Replied,
    ReplyFailed,
    ToolEnded,
)
from agents.turn.notes import (
    CANCELLED_NOTE,
    CANCELLED_RESULT,
    DENIED_RESULT,
    REPEATED_NOTE,
    SKIPPED_RESULT,
)
from agents.turn.rebuilding import DENIED_DIGEST
from agents.turn.state import (
    LOOP_REPEATS,
    LOOP_WINDOW,
    REPLIES_BETWEEN_SUMMARIES,
    Call,
    Phase,
    Progress,
    Step,
    Turn,
    call_of,
    digest_of,
    ended,
    trace_of,
    with_progress,
)
from workspaces.log.parts import FinishReason


def advance(turn: Turn, happened: Input) -> Step:
    """Returns the next state and its effects. An input that comes too late changes nothing."""
    if turn.phase is Phase.ENDED:
        return turn, ()
    match happened:
        case Begun():
            return _begin(turn, happened)
        case Replied():
            return _replied(turn, happened)
        case ReplyFailed():
            return _reply_failed(turn, happened)
        case Allowed():
            return _allow(turn, happened)
        case AnswerNeeded():
            return _await_answer(turn, happened)
        case Answered():
            return _check_again(turn, happened)
        case Denied():
            return _deny(turn, happened)
        case ToolEnded():
            return _end_call(turn, happened)
        case CancelSeen():
            return _cancelled(turn)
        case HandOver():
            return _hand_over(turn)
        case _:
            assert_never(happened)


def _begin(turn: Turn, begun: Begun) -> Step:
    match turn.phase:
        case Phase.FRESH:
            turn = replace(turn, is_full=begun.is_full, only_summarises=begun.only_summarises)
            return _summarise(turn) if begun.only_summarises else _call_model(turn, fold=False)
        case Phase.TOOLS:
            return _go_on(replace(turn, is_full=begun.is_full))
        case _:
            return turn, ()


def _replied(turn: Turn, reply: Replied) -> Step:
    if turn.phase is Phase.SUMMARISING:
        return _continue_after_summary(turn, FinishReason.END_TURN)
    if turn.phase is not Phase.CALLING:
        return turn, ()
    turn = replace(turn, steps=turn.steps + 1, is_full=reply.is_full, is_exhausted=False)
    if not reply.calls:
        # Some providers send TOOL_USE as the reason without a tool call: the turn ends then too.
        calls_none = reply.reason is FinishReason.TOOL_USE
        reason = FinishReason.END_TURN if calls_none else reply.reason
        return ended(turn), (SaveReply(reason), End(RunOutcome.COMPLETED))
    calls = tuple(Call(request) for request in reply.calls)
    turn = replace(turn, phase=Phase.TOOLS, calls=calls)
    turn, effects = _go_on(turn)
    return turn, (SaveReply(FinishReason.TOOL_USE), *effects)


def _reply_failed(turn: Turn, failed: ReplyFailed) -> Step:
    if turn.phase not in {Phase.CALLING, Phase.SUMMARISING}:
        return turn, ()
    if turn.phase is Phase.SUMMARISING and not (turn.is_exhausted or turn.only_summarises):
        # Some of the window is left: the turn may finish without a summary.
        return _continue_after_summary(turn, FinishReason.ERROR)
    if turn.phase is Phase.CALLING and failed.is_exhausted and not turn.is_exhausted:
        if turn.hands_over:  # the next worker's request fails in the same way, and is summarised
            return ended(turn), (SaveReply(FinishReason.MAX_TOKENS), Release())
        turn, effects = _summarise(replace(turn, is_exhausted=True))
        return turn, (SaveReply(FinishReason.MAX_TOKENS), *effects)
    end = End(RunOutcome.FAILED, FinishReason.ERROR, failed.error, failed.error)
    return ended(turn), (SaveReply(FinishReason.ERROR), end)


def _cancelled(turn: Turn) -> Step:
    effects: list[Effect] = [AbortWork()]
    effects += [
        GiveResult(call.request.id, CANCELLED_RESULT)
        for call in turn.calls
        if call.progress is not Progress.DONE
    ]
    if turn.phase in {Phase.CALLING, Phase.SUMMARISING}:
        effects.append(SaveReply(FinishReason.CANCELED))
    effects.append(End(RunOutcome.CANCELLED, FinishReason.CANCELED, CANCELLED_NOTE))
    return ended(turn), tuple(effects)


def _hand_over(turn: Turn) -> Step:
    turn = replace(turn, hands_over=True)
    # Nothing has begun: the run is new, or was rebuilt and has not continued.
    untouched = turn.phase is Phase.TOOLS and all(
        call.progress in {Progress.WAITING, Progress.DONE} for call in turn.calls
    )
    if turn.phase is Phase.FRESH or untouched:
        return ended(turn), (Release(),)
    return turn, ()


# -- requests to the model


def _call_model(turn: Turn, *, fold: bool) -> Step:
    """Calls the model, or requests a summary first if one is due."""
    is_due = turn.steps - turn.summary_step >= REPLIES_BETWEEN_SUMMARIES
    if turn.is_full and is_due:
        return _summarise(turn)
    return replace(turn, phase=Phase.CALLING), (CallModel(fold),)


def _summarise(turn: Turn) -> Step:
    turn = replace(turn, phase=Phase.SUMMARISING, summary_step=turn.steps)
    return turn, (Summarise(),)


def _continue_after_summary(turn: Turn, reason: FinishReason) -> Step:
    """Continues after a summary, which was written or failed without being necessary."""
    if turn.only_summarises:
        return ended(turn), (SaveReply(reason), End(RunOutcome.COMPLETED))
    if turn.hands_over:
        return ended(turn), (SaveReply(reason), Release())
    turn, effects = _call_model(turn, fold=True)
    return turn, (SaveReply(reason), *effects)


# -- the calls of a reply


def _allow(turn: Turn, allowed: Allowed) -> Step:
    call = call_of(turn, allowed.call_id)
    if call is None or call.progress not in {Progress.CHECKING, Progress.NEEDS_ANSWER}:
        return turn, ()
    turn, more = _go_on(with_progress(turn, allowed.call_id, Progress.RUNNING))
    return turn, (RunTool(allowed.call_id), *more)


def _await_answer(turn: Turn, needed: AnswerNeeded) -> Step:
    call = call_of(turn, needed.call_id)
    if call is None or call.progress is not Progress.CHECKING:
        return turn, ()
    return _go_on(with_progress(turn, needed.call_id, Progress.NEEDS_ANSWER))


def _check_again(turn: Turn, answered: Answered) -> Step:
    call = call_of(turn, answered.call_id)
    if call is None or call.progress is not Progress.NEEDS_ANSWER:
        return turn, ()
    return _go_on(with_progress(turn, answered.call_id, Progress.WAITING))


def _deny(turn: Turn, denied: Denied) -> Step:
    call = call_of(turn, denied.call_id)
    if call is None or call.progress in {Progress.RUNNING, Progress.DONE}:
        return turn, ()
    turn = with_progress(turn, denied.call_id, Progress.DONE, DENIED_DIGEST)
    turn, effects = _go_on(replace(turn, is_denied=True))
    return turn, (GiveResult(denied.call_id, DENIED_RESULT), *effects)


def _end_call(turn: Turn, happened: ToolEnded) -> Step:
    call = call_of(turn, happened.call_id)
    if call is None or call.progress is Progress.DONE:
        return turn, ()
    turn = with_progress(turn, happened.call_id, Progress.DONE, digest_of(happened.content))
    turn, effects = _go_on(turn)
    return turn, (SaveResult(happened.call_id), *effects)


def _go_on(turn: Turn) -> Step:
    """Starts the calls that can start now, or the next step when every call is done."""
    unfinished = [call for call in turn.calls if call.progress is not Progress.DONE]
    if not unfinished:
        return _step_done(turn)
    if turn.is_denied:
        return _wind_up(turn)
    effects: list[Effect] = []
    busy = any(c.progress in {Progress.CHECKING, Progress.RUNNING} for c in unfinished)
    if turn.hands_over and not busy:
        return ended(turn), (Release(),)
    for call in _startable(unfinished):
        if call.progress is Progress.WAITING and not turn.hands_over:
            turn = with_progress(turn, call.request.id, Progress.CHECKING)
            effects.append(CheckCall(call.request.id))
            busy = True
    if not busy:
        effects.append(Park())
    return turn, tuple(effects)


def _wind_up(turn: Turn) -> Step:
    """Skips the calls that have not started after a denial, and waits for the running ones."""
    effects: list[Effect] = []
    for call in turn.calls:
        if call.progress not in {Progress.RUNNING, Progress.DONE}:
            effects.append(GiveResult(call.request.id, SKIPPED_RESULT))
            turn = with_progress(turn, call.request.id, Progress.DONE, digest_of(SKIPPED_RESULT))
    if any(call.progress is Progress.RUNNING for call in turn.calls):
        return turn, tuple(effects)
    turn, more = _step_done(turn)
    return turn, (*effects, *more)


def _startable(unfinished: Sequence[Call]) -> list[Call]:
    """Returns the first unfinished call, and the calls after it that may run in parallel."""
    if not unfinished[0].request.parallel:
        return [unfinished[0]]
    startable: list[Call] = []
    for call in unfinished:
        if not call.request.parallel:
            break
        startable.append(call)
    return startable


def _step_done(turn: Turn) -> Step:
    trail = turn.trail
    if turn.calls:
        trail = (*trail, trace_of(turn.calls))[-LOOP_WINDOW:]
    turn = replace(turn, calls=(), trail=trail)
    if turn.is_denied:
        return ended(turn), (End(RunOutcome.COMPLETED, FinishReason.END_TURN),)
    if trail and trail.count(trail[-1]) >= LOOP_REPEATS:
        return ended(turn), (End(RunOutcome.COMPLETED, FinishReason.END_TURN, REPEATED_NOTE),)
    if turn.hands_over:
        return ended(turn), (Release(),)
    return _call_model(turn, fold=True)
