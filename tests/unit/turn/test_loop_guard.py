"""The loop guard: the same step again and again ends a turn."""

from __future__ import annotations

import pytest

from agents.states import RunOutcome
from agents.turn.effects import CallModel, End, SaveResult
from agents.turn.inputs import Allowed, Begun, HandOver, Replied, RequestedCall, ToolEnded
from agents.turn.machine import advance
from agents.turn.notes import REPEATED_NOTE
from agents.turn.rebuilding import rebuild
from agents.turn.state import LOOP_REPEATS, LOOP_WINDOW, Phase
from tests.unit.turn.turns import FRESH, play_step
from workspaces.log.parts import FinishReason

REPEATED = End(RunOutcome.COMPLETED, FinishReason.END_TURN, REPEATED_NOTE)


def test_the_same_step_five_times_ends_the_turn() -> None:
    turn, effects = advance(FRESH, Begun())
    for round_ in range(1, LOOP_REPEATS + 1):
        assert effects[-1] == CallModel(fold=round_ > 1)
        turn, effects = play_step(turn, RequestedCall(f"c{round_}", "ls", "{}"), "same")

    assert effects == (SaveResult(f"c{LOOP_REPEATS}"), REPEATED)
    assert turn.phase is Phase.ENDED


def test_a_loop_is_noticed_behind_steps_that_made_progress() -> None:
    turn, _ = advance(FRESH, Begun())
    for number in range(3):
        turn, effects = play_step(
            turn, RequestedCall(f"other{number}", "ls", f'"{number}"'), "same"
        )
    for number in range(LOOP_REPEATS):
        assert effects[-1] == CallModel(fold=True)
        turn, effects = play_step(turn, RequestedCall(f"c{number}", "ls", "{}"), "same")

    assert effects[-1] == REPEATED


def test_the_same_step_counts_though_others_lie_between() -> None:
    turn, _ = advance(FRESH, Begun())
    ended_at = 0
    for number in range(1, 2 * LOOP_WINDOW):
        other = number % 2 == 0
        call = RequestedCall(f"c{number}", "ls", f'"{number}"' if other else "{}")
        turn, effects = play_step(turn, call, "same")
        if effects[-1] == REPEATED:
            ended_at = number
            break

    assert ended_at == 2 * LOOP_REPEATS - 1


def test_the_same_step_seldom_enough_goes_on() -> None:
    turn, effects = advance(FRESH, Begun())
    for number in range(4 * LOOP_WINDOW):
        call = RequestedCall(f"c{number}", "ls", "{}" if number % 3 == 0 else f'"{number}"')
        turn, effects = play_step(turn, call, "same")
        assert effects[-1] == CallModel(fold=True)

    assert len(turn.trail) == LOOP_WINDOW


@pytest.mark.parametrize("what", ["name", "input", "result"])
def test_a_step_that_differs_is_progress(what: str) -> None:
    turn, effects = advance(FRESH, Begun())
    for number in range(2 * LOOP_WINDOW):
        changing = str(number)
        call = RequestedCall(
            changing, changing if what == "name" else "ls", changing if what == "input" else "{}"
        )
        turn, effects = play_step(turn, call, changing if what == "result" else "same")

    assert effects[-1] == CallModel(fold=True)


def test_a_loop_is_ended_also_while_it_is_handed_over() -> None:
    turn, _ = advance(FRESH, Begun())
    for number in range(LOOP_REPEATS - 1):
        turn, _ = play_step(turn, RequestedCall(str(number), "ls", "{}"), "same")
    turn, _ = advance(turn, Replied(FinishReason.TOOL_USE, (RequestedCall("last", "ls", "{}"),)))
    turn, _ = advance(turn, Allowed("last"))
    turn, _ = advance(turn, HandOver())
    turn, effects = advance(turn, ToolEnded("last", "same"))

    assert effects == (SaveResult("last"), REPEATED)


def test_the_loop_guard_remembers_over_a_crash() -> None:
    call = RequestedCall("c", "ls", "{}")
    done = LOOP_REPEATS - 1
    turn = rebuild([(call,)] * done, [("c", "same")] * done)
    turn, effects = advance(turn, Begun())
    assert effects == (CallModel(fold=True),)

    turn, effects = play_step(turn, call, "same")

    assert effects[-1] == REPEATED
