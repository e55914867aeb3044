"""The options of `prompt`."""

import pytest
from django.core.management.base import CommandError

from crushsite.cli.prompt_choices import budget_of, choices_of

NOTHING = {"model": None, "effort": None, "budget": None, "strategy": None, "scheduled": False}


@pytest.mark.parametrize(
    ("limits", "budget"),
    [
        (["0.50usd"], {"cost": 0.5}),
        (["20000tokens"], {"tokens": 20_000}),
        (["1 step".replace(" ", "")], {"steps": 1}),
        (["10Steps", "15m", "2USD"], {"steps": 10, "seconds": 900, "cost": 2.0}),
        (["1.5h"], {"seconds": 5400}),
        (["30s"], {"seconds": 30}),
    ],
)
def test_limits_are_parsed(limits: list[str], budget: dict[str, float]) -> None:
    assert budget_of(limits) == budget


@pytest.mark.parametrize("limit", ["", "5", "usd", "-1usd", "0usd", "1eur", "1e3usd", "1 usd x"])
def test_other_limits_are_errors(limit: str) -> None:
    with pytest.raises(CommandError, match="--budget"):
        budget_of([limit])


def test_a_limit_may_be_given_once() -> None:
    with pytest.raises(CommandError, match="twice"):
        budget_of(["10s", "1m"])


def test_without_options_nothing_is_sent() -> None:
    assert choices_of(NOTHING) == {}
    assert choices_of(NOTHING | {"strategy": "steer"}) == {"strategy": "steer"}
    assert choices_of(NOTHING | {"scheduled": True}) == {"priority": "scheduled"}
    assert choices_of(NOTHING | {"model": "small", "budget": ["1step"]}) == {
        "options": {"model": "small", "budget": {"steps": 1}}
    }
