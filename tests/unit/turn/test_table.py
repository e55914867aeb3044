"""The turn machine, row by row: a state, what happens, what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

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
from agents.turn.machine import advance
from agents.turn.state import Phase, Progress, Turn
from tests.unit.turn.rows_of_calls import CALLS
from tests.unit.turn.rows_of_speaking import SPEAKING
from tests.unit.turn.rows_of_summaries import SUMMARIES
from tests.unit.turn.turns import CALLING, ENDED, REPLIED_STOP, R, Row, one, tools
from workspaces.log.parts import FinishReason

TABLE: dict[str, Row] = {**SPEAKING, **SUMMARIES, **CALLS}


def states_of(turn: Turn, happened: Input) -> set[Phase | Progress]:
    """Where a turn stands, as far as an input is concerned."""
    if turn.phase is not Phase.TOOLS:
        return {turn.phase}
    call_id = getattr(happened, "call_id", None)
    return {call.progress for call in turn.calls if call_id in {None, call.request.id}}


STATES = [Phase.FRESH, Phase.CALLING, Phase.SUMMARISING, *Progress]


@pytest.mark.parametrize("kind", get_args(Input), ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize("state", STATES)
def test_the_table_has_every_input_in_every_state(
    state: Phase | Progress, kind: type[Input]
) -> None:
    assert any(
        isinstance(happened, kind) and state in states_of(turn, happened)
        for turn, happened, *_ in TABLE.values()
    )


def test_no_name_stands_for_two_rows() -> None:
    assert len(TABLE) == len(SPEAKING) + len(SUMMARIES) + len(CALLS)


@pytest.mark.parametrize("name", TABLE)
def test_it_follows_the_table(name: str) -> None:
    turn, happened, effects, phase, progress = TABLE[name]

    after, wanted = advance(turn, happened)

    assert wanted == effects
    assert after.phase is phase
    assert {call.request.id: call.progress for call in after.calls} == progress


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if not row[2]])
def test_what_wants_nothing_changes_nothing_but_what_it_says(name: str) -> None:
    turn, happened, _, _, progress = TABLE[name]

    after, _ = advance(turn, happened)

    says_something = isinstance(happened, HandOver) or progress != {
        call.request.id: call.progress for call in turn.calls
    }
    assert says_something or after == turn


@pytest.mark.parametrize(
    "happened",
    [
        Begun(),
        REPLIED_STOP,
        Replied(FinishReason.TOOL_USE, (one("a"),)),
        ReplyFailed("x"),
        Allowed("a"),
        AnswerNeeded("a"),
        Answered("a"),
        Denied("a"),
        ToolEnded("a", ""),
        CancelSeen(),
        HandOver(),
    ],
)
@pytest.mark.parametrize("turn", [ENDED, replace(tools(("a", R)), phase=Phase.ENDED)])
def test_nothing_follows_an_end(turn: Turn, happened: Input) -> None:
    assert advance(turn, happened) == (turn, ())


def test_it_refuses_what_is_no_input() -> None:
    with pytest.raises(AssertionError):
        advance(CALLING, "replied")  # type: ignore[arg-type]
