"""What of a sub-agent's events and questions is shown, whoever made them."""

from typing import Any

import pytest

from agents.fleet.event_mapping import (
    NAME_LIMIT,
    PARAMS_BYTES,
    name_of,
    params_of,
    to_model_event,
    words_of,
)
from agents.llm.contract import ReasoningDelta, TextDelta


def test_words_and_thoughts_are_heard():
    assert to_model_event({"type": "token", "content": "hi "}) == TextDelta("hi ")
    assert to_model_event({"type": "reasoning_token", "content": "hm"}) == ReasoningDelta("hm")


@pytest.mark.parametrize(
    "event",
    [
        None,
        7,
        "token",
        ["token", "hi"],
        {},
        {"type": "token"},
        {"type": "token", "content": ""},
        {"type": "token", "content": {"text": "hi"}},
        {"type": "tool_token", "content": "hi"},
        {"type": ["token"], "content": "hi"},
        {"type": "complete"},
    ],
)
def test_nothing_else_is(event: Any):
    assert to_model_event(event) is None


def test_no_character_is_kept_that_no_database_stores():
    assert to_model_event({"type": "token", "content": "a\x00b"}) == TextDelta("a\ufffdb")
    assert name_of({"type": "to\x00ken"}) == "to\ufffdken"
    assert words_of({"question": "a\x00b"}, "question") == "a\ufffdb"
    nested = {"a\x00": ["b\x00", {"c": "d\x00"}], "n": 1}
    assert params_of(nested) == {"a\ufffd": ["b\ufffd", {"c": "d\ufffd"}], "n": 1}


def test_a_name_is_short_text():
    assert name_of({"type": "x" * 1000}) == "x" * NAME_LIMIT
    assert name_of({"type": 5}) == name_of([]) == name_of(None) == ""


def test_a_questions_words_are_short_and_have_a_default():
    assert words_of({"tool_name": "y" * 500}, "tool_name", most=200) == "y" * 200
    for body in ({"tool_name": ""}, {"tool_name": 3}, {}, [], None, "x"):
        assert words_of(body, "tool_name", default="sub-agent") == "sub-agent"


def test_a_questions_body_is_kept_whole_unless_it_is_too_much():
    body = {"tool_name": "Write", "resource": "/x"}
    assert params_of(body) == body
    assert params_of(["x"]) == {"body": ["x"]}
    assert params_of(None) == {"body": None}
    much = params_of({"a": "x" * PARAMS_BYTES})
    assert set(much) == {"body"}
    assert "left out" in much["body"]
