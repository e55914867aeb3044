"""The turn as a pure machine: ``advance(state, input) → (state, effects)``.

A turn calls the model, runs the calls of its reply, and calls it again until
it stops. When the conversation nearly fills the model's window, or the model
says that it does not fit, a summary comes between two steps. The stored messages are the state: ``rebuild`` makes the same state
from them after a crash, with every call that has no result waiting again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias, assert_never

from agents.turn.effects import (
    AbortWork,
    CallModel,
    Effect,
    End,
    GiveResult,
    Judge,
    Outcome,
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
    Asked,
    Begun,
    CancelSeen,
    Denied,
    HandOver,
    Input,
    Replied,
    ReplyFailed,
    ToolEnded,
)
from workspaces.events.parts import FinishReason

CANCELLED_RESULT = "Cancelled by the user before it finished."
DENIED_RESULT = "The user denied permission for this call."
SKIPPED_RESULT = "Not run: the user denied permission for another call of this reply."
CANCELLED_NOTE = "User canceled request"
REPEATED_NOTE = "Stopped: the same tool calls were repeated without progress."

# The same calls with the same results so often among the last steps are a loop.
LOOP_WINDOW = 10
LOOP_REPEATS = 5

# Between two summaries of a turn: where a summary does not shorten, more of them do not either.
REPLIES_BETWEEN_SUMMARIES = 2


class Phase(StrEnum):
    FRESH = "fresh"  # claimed, nothing begun
    CALLING = "calling"  # the model speaks
    SUMMARISING = "summarising"  # the model writes the summary
    TOOLS = "tools"  # its calls are judged, asked for, run
    ENDED = "ended"


class Progress(StrEnum):
    WAITING = "waiting"
    JUDGED = "judged"  # being judged
    ASKED = "asked"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Call:
    asked: Asked
    progress: Progress = Progress.WAITING
    digest: str = ""  # of its result, for the loop guard


@dataclass(frozen=True, slots=True)
class Turn:
    phase: Phase = Phase.FRESH
    calls: tuple[Call, ...] = ()
    steps: int = 0  # replies so far
    trail: tuple[str, ...] = ()  # a digest for each step with calls, newest last
    is_denied: bool = False
    hands_over: bool = False
    is_full: bool = False  # a summary is due
    is_exhausted: bool = False  # the last call did not fit: the next one is its retry
    only_summarises: bool = False
    summary_step: int = -REPLIES_BETWEEN_SUMMARIES  # how many replies there were at the last one


Step: TypeAlias = tuple[Turn, tuple[Effect, ...]]


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
            return _allowed(turn, happened)
        case AnswerNeeded():
            return _answer_needed(turn, happened)
        case Answered():
            return _answered(turn, happened)
        case Denied():
            return _denied(turn, happened)
        case ToolEnded():
            return _tool_ended(turn, happened)
        case CancelSeen():
            return _cancelled(turn)
        case HandOver():
            return _hand_over(turn)
        case _:
            assert_never(happened)


def rebuild(steps: Sequence[Sequence[Asked]], results: Sequence[tuple[str, str]]) -> Turn:
    """The turn that wrote these messages and has not ended.

    ``steps``: the calls of each finished reply, in order. ``results``: call id
    and content of each result so far, in order.
    """
    # A call's id is unique in its reply alone: the next reply may use it again.
    contents: dict[str, deque[str]] = {}
    for call_id, content in results:
        contents.setdefault(call_id, deque()).append(content)
    open_calls: tuple[Call, ...] = ()
    trail: list[str] = []
    is_denied = False
    for step in steps:
        open_calls = tuple(
            Call(asked, Progress.DONE, _digest(contents[asked.id].popleft()))
            if contents.get(asked.id)
            else Call(asked)
            for asked in step
        )
        is_denied = any(call.digest == DENIED_DIGEST for call in open_calls)
        if open_calls and all(call.progress is Progress.DONE for call in open_calls):
            trail.append(_trace(open_calls))
            open_calls = ()
    return Turn(
        phase=Phase.TOOLS if steps else Phase.FRESH,
        calls=open_calls,
        steps=len(steps),
        trail=tuple(trail[-LOOP_WINDOW:]),
        is_denied=is_denied,
    )


def _begin(turn: Turn, begun: Begun) -> Step:
    match turn.phase:
        case Phase.FRESH:
            turn = replace(turn, is_full=begun.is_full, only_summarises=begun.only_summarises)
            return _summarise(turn) if begun.only_summarises else _call_model(turn, fold=False)
        case Phase.TOOLS:
            return _go_on(replace(turn, is_full=begun.is_full))
        case _:
            return turn, ()


def _call_model(turn: Turn, *, fold: bool) -> Step:
    """The next call, or the summary that must come before it."""
    is_due = turn.steps - turn.summary_step >= REPLIES_BETWEEN_SUMMARIES
    if turn.is_full and is_due:
        return _summarise(turn)
    return replace(turn, phase=Phase.CALLING), (CallModel(fold),)


def _summarise(turn: Turn) -> Step:
    turn = replace(turn, phase=Phase.SUMMARISING, is_full=False, summary_step=turn.steps)
    return turn, (Summarise(),)


def _summarised(turn: Turn, reason: FinishReason) -> Step:
    """The summary is written, or could not be and is not needed: what it was made for."""
    if turn.only_summarises:
        return _ended(turn), (SaveReply(reason), End(Outcome.COMPLETED))
    if turn.hands_over:
        return _ended(turn), (SaveReply(reason), Release())
    turn, effects = _call_model(turn, fold=True)
    return turn, (SaveReply(reason), *effects)


def _replied(turn: Turn, reply: Replied) -> Step:
    if turn.phase is Phase.SUMMARISING:
        return _summarised(turn, FinishReason.END_TURN)
    if turn.phase is not Phase.CALLING:
        return turn, ()
    turn = replace(turn, steps=turn.steps + 1, is_full=reply.is_full, is_exhausted=False)
    if not reply.calls:
        # Some providers say that they call a tool and then call none: that is an end too.
        calls_none = reply.reason is FinishReason.TOOL_USE
        reason = FinishReason.END_TURN if calls_none else reply.reason
        return _ended(turn), (SaveReply(reason), End(Outcome.COMPLETED))
    calls = tuple(Call(asked) for asked in reply.calls)
    turn = replace(turn, phase=Phase.TOOLS, calls=calls)
    turn, effects = _go_on(turn)
    return turn, (SaveReply(FinishReason.TOOL_USE), *effects)


def _reply_failed(turn: Turn, failed: ReplyFailed) -> Step:
    if turn.phase not in {Phase.CALLING, Phase.SUMMARISING}:
        return turn, ()
    if turn.phase is Phase.SUMMARISING and not (turn.is_exhausted or turn.only_summarises):
        # There is some room left: the turn may come to its end without.
        return _summarised(turn, FinishReason.ERROR)
    if turn.phase is Phase.CALLING and failed.is_exhausted and not turn.is_exhausted:
        turn, effects = _summarise(replace(turn, is_exhausted=True))
        return turn, (SaveReply(FinishReason.MAX_TOKENS), *effects)
    end = End(Outcome.FAILED, FinishReason.ERROR, failed.error, failed.error)
    return _ended(turn), (SaveReply(FinishReason.ERROR), end)


def _allowed(turn: Turn, allowed: Allowed) -> Step:
    call = _call(turn, allowed.call_id)
    if call is None or call.progress not in {Progress.JUDGED, Progress.ASKED}:
        return turn, ()
    turn, more = _go_on(_with(turn, allowed.call_id, Progress.RUNNING))
    return turn, (RunTool(allowed.call_id), *more)


def _answer_needed(turn: Turn, needed: AnswerNeeded) -> Step:
    call = _call(turn, needed.call_id)
    if call is None or call.progress is not Progress.JUDGED:
        return turn, ()
    return _go_on(_with(turn, needed.call_id, Progress.ASKED))


def _answered(turn: Turn, answered: Answered) -> Step:
    call = _call(turn, answered.call_id)
    if call is None or call.progress is not Progress.ASKED:
        return turn, ()
    return _go_on(_with(turn, answered.call_id, Progress.WAITING))


def _denied(turn: Turn, denied: Denied) -> Step:
    call = _call(turn, denied.call_id)
    if call is None or call.progress in {Progress.RUNNING, Progress.DONE}:
        return turn, ()
    turn = _with(turn, denied.call_id, Progress.DONE, DENIED_DIGEST)
    turn, effects = _go_on(replace(turn, is_denied=True))
    return turn, (GiveResult(denied.call_id, DENIED_RESULT), *effects)


def _tool_ended(turn: Turn, ended: ToolEnded) -> Step:
    call = _call(turn, ended.call_id)
    if call is None or call.progress is Progress.DONE:
        return turn, ()
    turn = _with(turn, ended.call_id, Progress.DONE, _digest(ended.content))
    turn, effects = _go_on(turn)
    return turn, (SaveResult(ended.call_id), *effects)


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
    return _ended(turn), tuple(effects)


def _hand_over(turn: Turn) -> Step:
    turn = replace(turn, hands_over=True)
    # Nothing is begun: the run is new, or was taken on again and not gone on with.
    untouched = turn.phase is Phase.TOOLS and all(
        call.progress in {Progress.WAITING, Progress.DONE} for call in turn.calls
    )
    if turn.phase is Phase.FRESH or untouched:
        return _ended(turn), (Release(),)
    return turn, ()


def _go_on(turn: Turn) -> Step:
    """Starts what can start now; the next model call when every call is done."""
    unfinished = [call for call in turn.calls if call.progress is not Progress.DONE]
    if not unfinished:
        return _step_done(turn)
    if turn.is_denied:
        return _wind_up(turn)
    effects: list[Effect] = []
    busy = any(c.progress in {Progress.JUDGED, Progress.RUNNING} for c in unfinished)
    if turn.hands_over and not busy:
        return _ended(turn), (Release(),)
    for call in _startable(unfinished):
        if call.progress is Progress.WAITING and not turn.hands_over:
            turn = _with(turn, call.asked.id, Progress.JUDGED)
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
            turn = _with(turn, call.asked.id, Progress.DONE, _digest(SKIPPED_RESULT))
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
        trail = (*trail, _trace(turn.calls))[-LOOP_WINDOW:]
    turn = replace(turn, calls=(), trail=trail)
    if turn.is_denied:
        return _ended(turn), (End(Outcome.COMPLETED, FinishReason.END_TURN),)
    if trail and trail.count(trail[-1]) >= LOOP_REPEATS:
        return _ended(turn), (End(Outcome.COMPLETED, FinishReason.END_TURN, REPEATED_NOTE),)
    if turn.hands_over:
        return _ended(turn), (Release(),)
    return _call_model(turn, fold=True)


def _ended(turn: Turn) -> Turn:
    return replace(turn, phase=Phase.ENDED)


def _call(turn: Turn, call_id: str) -> Call | None:
    return next((call for call in turn.calls if call.asked.id == call_id), None)


def _with(turn: Turn, call_id: str, progress: Progress, digest: str = "") -> Turn:
    calls = tuple(
        replace(call, progress=progress, digest=digest) if call.asked.id == call_id else call
        for call in turn.calls
    )
    return replace(turn, calls=calls)


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# A stored denial is known by its result: the turn must end also when it is rebuilt.
DENIED_DIGEST = _digest(DENIED_RESULT)


def _trace(calls: Sequence[Call]) -> str:
    return _digest("\x00".join(f"{c.asked.name}\x01{c.asked.input}\x01{c.digest}" for c in calls))
