"""Summaries over several steps: when they come, when they do not, and what follows."""

from __future__ import annotations

from agents.states import RunOutcome
from agents.turn.effects import CallModel, End, Release, SaveReply, SaveResult, Summarise
from agents.turn.inputs import (
    Allowed,
    Begun,
    HandOver,
    Replied,
    ReplyFailed,
    RequestedCall,
    ToolEnded,
)
from agents.turn.machine import advance
from agents.turn.rebuilding import rebuild
from agents.turn.state import LOOP_REPEATS, REPLIES_BETWEEN_SUMMARIES, Phase, Turn
from tests.unit.turn.turns import FRESH, REPLIED_STOP, play_step
from workspaces.log.parts import FinishReason

EXHAUSTED = ReplyFailed("too long", is_exhausted=True)


def full_step(turn: Turn, number: int) -> Turn:
    """A step with one call, with a reply that leaves the window nearly full."""
    call = RequestedCall(f"c{number}", "ls", f'"{number}"')
    turn, _ = advance(turn, Replied(FinishReason.TOOL_USE, (call,), is_full=True))
    turn, _ = advance(turn, Allowed(call.id))
    return advance(turn, ToolEnded(call.id, ""))[0]


def test_summaries_that_shorten_nothing_leave_replies_between_them() -> None:
    turn, _ = advance(FRESH, Begun(is_full=True))
    replies: list[int] = []
    made = 0
    for _ in range(3):
        assert turn.phase is Phase.SUMMARISING
        turn, _ = advance(turn, REPLIED_STOP)
        before = made
        while turn.phase is Phase.CALLING:
            made += 1
            assert made < 20, "no summary comes any more"
            turn = full_step(turn, made)
        replies.append(made - before)

    assert replies == [REPLIES_BETWEEN_SUMMARIES] * 3


def test_what_does_not_fit_is_summarised_and_asked_for_once_more() -> None:
    turn, _ = advance(FRESH, Begun())
    turn, effects = advance(turn, EXHAUSTED)
    assert effects == (SaveReply(FinishReason.MAX_TOKENS), Summarise())
    turn, effects = advance(turn, REPLIED_STOP)
    assert effects == (SaveReply(FinishReason.END_TURN), CallModel(fold=True))
    turn, effects = advance(turn, EXHAUSTED)

    assert effects[-1] == End(RunOutcome.FAILED, FinishReason.ERROR, "too long", "too long")


def test_a_retry_that_succeeded_allows_for_another_later() -> None:
    turn, _ = advance(FRESH, Begun())
    turn, _ = advance(turn, EXHAUSTED)
    turn, _ = advance(turn, REPLIED_STOP)
    turn, effects = play_step(turn, RequestedCall("c1", "ls", "{}"), "")
    assert effects == (SaveResult("c1"), CallModel(fold=True))

    turn, effects = advance(turn, EXHAUSTED)

    assert effects == (SaveReply(FinishReason.MAX_TOKENS), Summarise())


def test_a_summary_that_could_not_be_written_may_still_be_forced() -> None:
    turn, _ = advance(FRESH, Begun(is_full=True))
    turn, effects = advance(turn, EXHAUSTED)
    assert effects == (SaveReply(FinishReason.ERROR), CallModel(fold=True))
    turn, effects = advance(turn, EXHAUSTED)
    assert effects == (SaveReply(FinishReason.MAX_TOKENS), Summarise())

    assert advance(turn, REPLIED_STOP)[1][-1] == CallModel(fold=True)


def test_a_turn_given_up_where_it_did_not_fit_asks_again_when_it_is_taken_on() -> None:
    turn, _ = advance(FRESH, Begun())
    turn, _ = advance(turn, HandOver())
    turn, effects = advance(turn, EXHAUSTED)
    assert effects == (SaveReply(FinishReason.MAX_TOKENS), Release())

    turn, effects = advance(rebuild([()], ()), Begun())

    assert effects == (CallModel(fold=True),)
    assert advance(turn, EXHAUSTED)[1][-1] == Summarise()


def test_a_turn_given_up_behind_its_summary_goes_on_from_it() -> None:
    turn, _ = advance(FRESH, Begun(is_full=True))
    turn, _ = advance(turn, HandOver())
    turn, effects = advance(turn, REPLIED_STOP)
    assert effects == (SaveReply(FinishReason.END_TURN), Release())

    # What it wrote before its summary is not read again.
    assert advance(rebuild((), ()), Begun())[1] == (CallModel(fold=False),)


def test_the_loop_guard_looks_behind_a_summary() -> None:
    turn, _ = advance(FRESH, Begun())
    for number in range(LOOP_REPEATS - 1):
        turn, _ = play_step(turn, RequestedCall(f"c{number}", "ls", "{}"), "same")
    turn, _ = advance(turn, EXHAUSTED)
    turn, _ = advance(turn, REPLIED_STOP)
    turn, _ = play_step(turn, RequestedCall("last", "ls", "{}"), "same")

    assert turn.phase is Phase.ENDED
