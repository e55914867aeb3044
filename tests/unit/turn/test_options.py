"""The options of a prompt, and the budget that ends its run."""

from __future__ import annotations

from typing import Any

import pytest

from agents.turn.options import NO_OPTIONS, Budget, RunOptions, Spent, options_from, over_budget

SPENT = Spent(cost=0.5, tokens=1_000, steps=3, seconds=60)


@pytest.mark.parametrize(
    "options",
    [
        NO_OPTIONS,
        RunOptions(model="small"),
        RunOptions("p/m", "high", "normal", Budget(0.5, 10, 2, 60)),
        RunOptions(budget=Budget(steps=1)),
    ],
)
def test_stored_options_are_read_as_they_were(options: RunOptions) -> None:
    assert options_from(options.stored()) == options
    assert bool(options) == (options.stored() is not None)


@pytest.mark.parametrize(
    ("limits", "exceeded"),
    [
        ({}, None),
        ({"cost": 0.51, "tokens": 1_001, "steps": 4, "seconds": 61}, None),
        ({"cost": 0.5}, ("cost",)),
        ({"tokens": 1_000}, ("tokens",)),
        ({"steps": 3}, ("steps",)),
        ({"seconds": 60}, ("seconds",)),
        ({"cost": 0.1, "tokens": 1_001, "steps": 1}, ("cost", "steps")),
    ],
)
def test_a_limit_that_is_reached_is_exceeded(
    limits: dict[str, Any], exceeded: tuple[str, ...] | None
) -> None:
    over = over_budget(Budget(**limits), SPENT)
    assert (over.exceeded if over is not None else None) == exceeded


def test_the_sentence_has_each_amount_with_its_limit() -> None:
    over = over_budget(Budget(cost=0.1, tokens=900), SPENT)
    assert over is not None
    assert over.sentence == "Over budget: $0.5000 of $0.1000, 1,000 of 900 tokens"
    assert over.to_wire() == {
        "limits": {"cost": 0.1, "tokens": 900},
        "reached": {"cost": 0.5, "tokens": 1_000, "steps": 3, "seconds": 60},
        "exceeded": ["cost", "tokens"],
    }
