"""Answers that are typed as options, and the models of a configuration."""

import pytest
from django.core.management.base import CommandError

from crushsite.client.management.commands.answer import responses_of, seconds_of
from crushsite.client.management.commands.models import models_of

CHOICES = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
QUESTIONS = [
    {"id": "1", "type": "yes_no", "question": "Go?"},
    {"id": "2", "type": "single_choice", "question": "Which?", "choices": CHOICES},
    {"id": "3", "type": "free_text", "question": "Why?"},
]


def test_responses_follow_the_order_of_the_questions() -> None:
    assert responses_of(QUESTIONS, ["yes", "2", "because"]) == [
        {"request_id": "1", "yes": True},
        {"request_id": "2", "selected_ids": ["b"]},
        {"request_id": "3", "fill_in_text": "because"},
    ]


def test_an_empty_response_skips_its_question() -> None:
    assert responses_of(QUESTIONS, ["", "2"]) == [{"request_id": "2", "selected_ids": ["b"]}]


@pytest.mark.parametrize("typed", [["maybe"], ["yes", "9"], ["yes", "1", "x", "too many"]])
def test_responses_that_do_not_fit_are_errors(typed: list[str]) -> None:
    with pytest.raises(CommandError):
        responses_of(QUESTIONS, typed)


def test_times_are_parsed() -> None:
    assert [seconds_of(text) for text in ("30m", "2h", "7d", "1w")] == [
        1800,
        7200,
        604_800,
        604_800,
    ]
    for text in ("", "5", "0h", "1y"):
        with pytest.raises(CommandError):
            seconds_of(text)


def test_the_models_in_use_come_first() -> None:
    config = {
        "models": {"large": {"provider": "p", "model": "b"}},
        "providers": {
            "p": {"models": [{"id": "a"}, {"id": "b", "context_window": 5}]},
            "off": {"disable": True, "models": [{"id": "c"}]},
        },
    }
    found = models_of(config)
    assert [(model["id"], model["used_as"]) for model in found] == [("b", ["large"]), ("a", [])]
