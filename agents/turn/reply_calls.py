"""The calls of one reply: judged, asked for, run, until each has its result. Pure.

What starts when, and what a denial leaves undone. Behind the last result the
model is asked again, unless the turn stops there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.turn.asking import call_model
from agents.turn.effects import (
    Effect,
    End,
    GiveResult,
    Judge,
    Outcome,
    Park,
    Release,
    RunTool,
    SaveResult,
)
from agents.turn.inputs import Allowed, Answered, AnswerNeeded, Denied, ToolEnded
from agents.turn.notes import DENIED_RESULT, REPEATED_NOTE, SKIPPED_RESULT
from agents.turn.rebuilding import DENIED_DIGEST
from agents.turn.state import (
    LOOP_REPEATS,
    LOOP_WINDOW,
    Call,
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


def allow(turn: Turn, allowed: Allowed) -> Step:
    call = call_of(turn, allowed.call_id)
    if call is None or call.progress not in {Progress.JUDGED, Progress.ASKED}:
        return turn, ()
    turn, more = go_on(with_progress(turn, allowed.call_id, Progress.RUNNING))
    return turn, (RunTool(allowed.call_id), *more)


def await_answer(turn: Turn, needed: AnswerNeeded) -> Step:
    call = call_of(turn, needed.call_id)
    if call is None or call.progress is not Progress.JUDGED:
        return turn, ()
    return go_on(with_progress(turn, needed.call_id, Progress.ASKED))


def judge_again(turn: Turn, answered: Answered) -> Step:
    call = call_of(turn, answered.call_id)
    if call is None or call.progress is not Progress.ASKED:
        return turn, ()
    return go_on(with_progress(turn, answered.call_id, Progress.WAITING))


def deny(turn: Turn, denied: Denied) -> Step:
    call = call_of(turn, denied.call_id)
    if call is None or call.progress in {Progress.RUNNING, Progress.DONE}:
        return turn, ()
    turn = with_progress(turn, denied.call_id, Progress.DONE, DENIED_DIGEST)
    turn, effects = go_on(replace(turn, is_denied=True))
    return turn, (GiveResult(denied.call_id, DENIED_RESULT), *effects)


def end_call(turn: Turn, happened: ToolEnded) -> Step:
    call = call_of(turn, happened.call_id)
    if call is None or call.progress is Progress.DONE:
        return turn, ()
    turn = with_progress(turn, happened.call_id, Progress.DONE, digest_of(happened.content))
    turn, effects = go_on(turn)
    return turn, (SaveResult(happened.call_id), *effects)


def go_on(turn: Turn) -> Step:
    """Starts what can start now; the next model call when every call is done."""
    unfinished = [call for call in turn.calls if call.progress is not Progress.DONE]
    if not unfinished:
        return _step_done(turn)
    if turn.is_denied:
        return _wind_up(turn)
    effects: list[Effect] = []
    busy = any(c.progress in {Progress.JUDGED, Progress.RUNNING} for c in unfinished)
    if turn.hands_over and not busy:
        return ended(turn), (Release(),)
    for call in _startable(unfinished):
        if call.progress is Progress.WAITING and not turn.hands_over:
            turn = with_progress(turn, call.asked.id, Progress.JUDGED)
            effects.append(Judge(call.asked.id))
            busy = True
    if not busy:
        effects.append(Park())
    return turn, tuple(effects)


def _wind_up(turn: Turn) -> Step:
    """After a denial nothing starts; what runs beside the denied call comes to its end."""
    effects: list[Effect] = []
    for call in turn.calls:
        if call.progress not in {Progress.RUNNING, Progress.DONE}:
            effects.append(GiveResult(call.asked.id, SKIPPED_RESULT))
            turn = with_progress(turn, call.asked.id, Progress.DONE, digest_of(SKIPPED_RESULT))
    if any(call.progress is Progress.RUNNING for call in turn.calls):
        return turn, tuple(effects)
    turn, more = _step_done(turn)
    return turn, (*effects, *more)


def _startable(unfinished: Sequence[Call]) -> list[Call]:
    """The first call, with those behind it that may run beside it."""
    if not unfinished[0].asked.parallel:
        return [unfinished[0]]
    startable: list[Call] = []
    for call in unfinished:
        if not call.asked.parallel:
            break
        startable.append(call)
    return startable


def _step_done(turn: Turn) -> Step:
    trail = turn.trail
    if turn.calls:
        trail = (*trail, trace_of(turn.calls))[-LOOP_WINDOW:]
    turn = replace(turn, calls=(), trail=trail)
    if turn.is_denied:
        return ended(turn), (End(Outcome.COMPLETED, FinishReason.END_TURN),)
    if trail and trail.count(trail[-1]) >= LOOP_REPEATS:
        return ended(turn), (End(Outcome.COMPLETED, FinishReason.END_TURN, REPEATED_NOTE),)
    if turn.hands_over:
        return ended(turn), (Release(),)
    return call_model(turn, fold=True)
