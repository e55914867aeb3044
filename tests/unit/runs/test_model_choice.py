"""Which model a run uses: what its prompt names, or what the workspace has chosen."""

from __future__ import annotations

import pytest

from agents.config.settings import ModelChoice, Settings
from agents.models import RunKind
from agents.runs.setup import choice_for, chosen_model
from agents.turn.options import NO_OPTIONS, RunOptions

LARGE = ModelChoice("openai", "big", max_tokens=9, reasoning_effort="low")
SMALL = ModelChoice("openai", "tiny")
SETTINGS = Settings(providers={}, large=LARGE, small=SMALL)


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        ("", LARGE),
        ("large", LARGE),
        ("small", SMALL),
        ("openai/big", LARGE),  # with its parameters
        ("other/big", ModelChoice("other", "big")),
        ("router/vendor/model", ModelChoice("router", "vendor/model")),
    ],
)
def test_a_model_is_found_by_its_name(name: str, choice: ModelChoice) -> None:
    assert chosen_model(SETTINGS, name) == choice


def test_an_effort_changes_the_chosen_model_alone() -> None:
    chosen = choice_for(SETTINGS, RunKind.PROMPT, RunOptions(effort="high"))
    assert (chosen.model, chosen.max_tokens, chosen.reasoning_effort) == ("big", 9, "high")
    assert choice_for(SETTINGS, RunKind.AGENT, RunOptions(model="small")) == SMALL
    assert choice_for(SETTINGS, RunKind.PROMPT, NO_OPTIONS) == LARGE


def test_web_pages_are_read_by_the_small_model_whatever_a_prompt_chooses() -> None:
    assert choice_for(SETTINGS, RunKind.FETCH, RunOptions(model="large", effort="high")) == SMALL
