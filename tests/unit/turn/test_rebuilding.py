"""A turn made anew from its stored messages."""

from __future__ import annotations

import pytest

from agents.turn.effects import CallModel, GiveResult
from agents.turn.inputs import Allowed, Begun, Denied, Replied, RequestedCall
from agents.turn.machine import advance
from agents.turn.notes import DENIED_RESULT, EARLIER_DENIED_RESULTS, SKIPPED_RESULT
from agents.turn.rebuilding import rebuild
from agents.turn.state import LOOP_WINDOW, Phase, Turn
from tests.unit.turn.turns import CALLING, DENIED_END, FRESH, D, W, one, play_step
from workspaces.log.parts import FinishReason


def test_a_turn_without_messages_is_rebuilt_fresh() -> None:
    assert rebuild((), ()) == Turn()


def test_calls_without_results_wait_again() -> None:
    turn = rebuild([(one("a"),), (one("b"), one("c"))], [("a", "x"), ("b", "y")])

    assert turn.phase is Phase.TOOLS
    assert turn.steps == 2
    assert [call.progress for call in turn.calls] == [D, W]
    assert len(turn.trail) == 1


def test_a_turn_with_every_result_calls_the_model_next() -> None:
    turn = rebuild([(one("a"),)], [("a", "x")])

    assert turn.calls == ()
    assert advance(turn, Begun())[1] == (CallModel(fold=True),)


def test_a_call_is_not_taken_as_done_because_an_earlier_reply_used_its_id() -> None:
    turn = rebuild([(one("a"),), (one("a"),)], [("a", "x")])

    assert [call.progress for call in turn.calls] == [W]


def test_each_reply_gets_its_own_result_of_an_id() -> None:
    live, _ = advance(FRESH, Begun())
    for content in ("first", "second"):
        live, _ = play_step(live, one("a"), content)

    assert (
        rebuild([(one("a"),), (one("a"),)], [("a", "first"), ("a", "second")]).trail == live.trail
    )


def test_a_denial_outlives_a_crash_before_its_neighbour_ran() -> None:
    calls = (one("A", parallel=True), one("B", parallel=True), one("c"))
    turn, _ = advance(CALLING, Replied(FinishReason.TOOL_USE, calls))
    turn, _ = advance(turn, Allowed("A"))
    turn, effects = advance(turn, Denied("B"))
    stored = [(e.call_id, e.content) for e in effects if isinstance(e, GiveResult)]

    turn, effects = advance(rebuild([calls], stored), Begun())

    assert effects == (GiveResult("A", SKIPPED_RESULT), DENIED_END)
    assert turn.phase is Phase.ENDED


@pytest.mark.parametrize("result", [DENIED_RESULT, *EARLIER_DENIED_RESULTS])
def test_a_denial_whose_results_are_all_stored_never_calls_the_model(result: str) -> None:
    turn = rebuild([(one("a"),)], [("a", result)])

    assert advance(turn, Begun())[1] == (DENIED_END,)


def test_a_long_turn_keeps_only_its_last_steps_in_mind() -> None:
    steps = [(RequestedCall(str(n), "ls", str(n)),) for n in range(3 * LOOP_WINDOW)]

    turn = rebuild(steps, [(str(n), "") for n in range(3 * LOOP_WINDOW)])

    assert turn.steps == 3 * LOOP_WINDOW
    assert turn.trail == rebuild(steps[-LOOP_WINDOW:], [(s[0].id, "") for s in steps]).trail
    assert len(set(turn.trail)) == LOOP_WINDOW


def test_a_result_that_is_no_valid_text_is_still_compared() -> None:
    turn = rebuild([(one("a"),)], [("a", "\ud800")])

    assert len(turn.trail) == 1


def test_a_reply_without_calls_leaves_no_trace() -> None:
    assert rebuild([()], ()).trail == ()
