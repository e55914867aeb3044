"""The turn as a pure machine: ``advance(state, input) → (state, effects)``.

A turn calls the model, runs the calls of its reply, and calls it again until
it stops. When the conversation nearly fills the model's window, or the model
says that it does not fit, a summary comes between two steps. The stored
messages are the state: ``rebuild`` makes the same state from them after a
crash, with every call that has no result waiting again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from agents.turn.asking import call_model, go_on_behind_summary, summarise
from agents.turn.effects import AbortWork, Effect, End, GiveResult, Outcome, Release, SaveReply
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
from agents.turn.notes import CANCELLED_NOTE, CANCELLED_RESULT
from agents.turn.reply_calls import (
    allow,
    await_answer,
    deny,
    end_call,
    go_on,
    judge_again,
)
from agents.turn.state import Call, Phase, Progress, Step, Turn, ended
from workspaces.log.parts import FinishReason


def advance(turn: Turn, happened: Input) -> Step:
    """What follows. An input that comes too late changes nothing."""
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
            return allow(turn, happened)
        case AnswerNeeded():
            return await_answer(turn, happened)
        case Answered():
            return judge_again(turn, happened)
        case Denied():
            return deny(turn, happened)
        case ToolEnded():
            return end_call(turn, happened)
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
            return summarise(turn) if begun.only_summarises else call_model(turn, fold=False)
        case Phase.TOOLS:
            return go_on(replace(turn, is_full=begun.is_full))
        case _:
            return turn, ()


def _replied(turn: Turn, reply: Replied) -> Step:
    if turn.phase is Phase.SUMMARISING:
        return go_on_behind_summary(turn, FinishReason.END_TURN)
    if turn.phase is not Phase.CALLING:
        return turn, ()
    turn = replace(turn, steps=turn.steps + 1, is_full=reply.is_full, is_exhausted=False)
    if not reply.calls:
        # Some providers say that they call a tool and then call none: that is an end too.
        calls_none = reply.reason is FinishReason.TOOL_USE
        reason = FinishReason.END_TURN if calls_none else reply.reason
        return ended(turn), (SaveReply(reason), End(Outcome.COMPLETED))
    calls = tuple(Call(asked) for asked in reply.calls)
    turn = replace(turn, phase=Phase.TOOLS, calls=calls)
    turn, effects = go_on(turn)
    return turn, (SaveReply(FinishReason.TOOL_USE), *effects)


def _reply_failed(turn: Turn, failed: ReplyFailed) -> Step:
    if turn.phase not in {Phase.CALLING, Phase.SUMMARISING}:
        return turn, ()
    if turn.phase is Phase.SUMMARISING and not (turn.is_exhausted or turn.only_summarises):
        # There is some room left: the turn may come to its end without.
        return go_on_behind_summary(turn, FinishReason.ERROR)
    if turn.phase is Phase.CALLING and failed.is_exhausted and not turn.is_exhausted:
        if turn.hands_over:  # whoever goes on finds out again that it does not fit
            return ended(turn), (SaveReply(FinishReason.MAX_TOKENS), Release())
        turn, effects = summarise(replace(turn, is_exhausted=True))
        return turn, (SaveReply(FinishReason.MAX_TOKENS), *effects)
    end = End(Outcome.FAILED, FinishReason.ERROR, failed.error, failed.error)
    return ended(turn), (SaveReply(FinishReason.ERROR), end)


def _cancelled(turn: Turn) -> Step:
    effects: list[Effect] = [AbortWork()]
    effects += [
        GiveResult(call.asked.id, CANCELLED_RESULT)
        for call in turn.calls
        if call.progress is not Progress.DONE
    ]
    if turn.phase in {Phase.CALLING, Phase.SUMMARISING}:
        effects.append(SaveReply(FinishReason.CANCELED))
    effects.append(End(Outcome.CANCELLED, FinishReason.CANCELED, CANCELLED_NOTE))
    return ended(turn), tuple(effects)


def _hand_over(turn: Turn) -> Step:
    turn = replace(turn, hands_over=True)
    # Nothing is begun: the run is new, or was taken on again and not gone on with.
    untouched = turn.phase is Phase.TOOLS and all(
        call.progress in {Progress.WAITING, Progress.DONE} for call in turn.calls
    )
    if turn.phase is Phase.FRESH or untouched:
        return ended(turn), (Release(),)
    return turn, ()
