import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.contract import (
    ReasoningDelta,
    ReasoningSigned,
    Stopped,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
    Usage,
)
from agents.llm.errors import BrokenStream, ModelError, RateLimited
from agents.llm.wires.responses import ResponsesDecoder
from workspaces.log.parts import FinishReason

CALL = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": '{"a":1}'}


def decode(*events: dict[str, Any], error_for: Any = None) -> list[Any]:
    decoder = ResponsesDecoder(error_for) if error_for else ResponsesDecoder()
    return [told for event in events for told in decoder.feed(json.dumps(event).encode())]


def ended(status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, **more}}


def test_a_call_that_is_only_told_when_it_is_done_is_whole() -> None:
    assert decode({"type": "response.output_item.done", "output_index": 3, "item": CALL}) == [
        ToolCallStarted("c", "bash"),
        ToolInputDelta("c", '{"a":1}'),
        ToolCallFinished("c"),
    ]


def test_a_call_that_was_cut_is_not_finished() -> None:
    cut = CALL | {"status": "incomplete", "arguments": '{"a'}
    events = decode(
        {"type": "response.output_item.added", "output_index": 0, "item": CALL},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"a'},
        {"type": "response.output_item.done", "output_index": 0, "item": cut},
        ended("incomplete", incomplete_details={"reason": "max_output_tokens"}),
    )
    assert not any(isinstance(event, ToolCallFinished) for event in events)
    assert events[-1] == Stopped(FinishReason.MAX_TOKENS)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (ended(), FinishReason.END_TURN),
        (ended("incomplete"), FinishReason.UNKNOWN),
        (
            ended("incomplete", incomplete_details={"reason": "content_filter"}),
            FinishReason.CONTENT_FILTER,
        ),
    ],
)
def test_the_end_says_why(told: dict[str, Any], reason: FinishReason) -> None:
    assert decode(told) == [Stopped(reason)]


def test_tokens_of_the_cache_are_counted_apart() -> None:
    details = {"cached_tokens": 30, "cache_write_tokens": 20}
    usage = {"input_tokens": 100, "input_tokens_details": details, "output_tokens": 7}
    assert decode(ended(usage=usage))[-1].usage == Usage(50, 7, 30, 20)


def test_parts_of_a_summary_stand_apart_and_its_seal_comes_last() -> None:
    part = {"type": "response.reasoning_summary_part.added", "output_index": 0}
    item = {"type": "reasoning", "encrypted_content": "gA"}
    assert decode(
        part,
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "a"},
        part,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ) == [ReasoningDelta("a"), ReasoningDelta("\n\n"), ReasoningSigned("openai-responses:gA")]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow"},
        {"type": "error", "error": {"code": "rate_limit_exceeded", "message": "slow"}},
        {
            "type": "response.failed",
            "response": {"error": {"code": "rate_limit_exceeded", "message": "slow"}},
        },
    ],
)
def test_an_error_is_found_wherever_it_stands(event: dict[str, Any]) -> None:
    def error_for(error: Any) -> ModelError:
        return RateLimited() if error["code"] == "rate_limit_exceeded" else ModelError()

    with pytest.raises(RateLimited):
        decode(event, error_for=error_for)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "item", "delta", "response", "usage", "error", "output_index"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)
TYPES = [
    *("response.output_text.delta", "response.output_item.added", "response.output_item.done"),
    *("response.function_call_arguments.delta", "response.completed", "response.failed", "error"),
    *("response.reasoning_summary_part.added", "response.refusal.delta"),
]


@given(
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(["item", "response", "delta", "error"]), JSON),
)
def test_nothing_but_a_model_error_comes_of_anything(kind: str, event: dict[str, Any]) -> None:
    decoder = ResponsesDecoder()
    try:
        decoder.feed(json.dumps({**event, "type": kind}).encode())
        decoder.end()
    except BrokenStream:
        pass


def test_the_model_that_replied_is_named_at_the_end() -> None:
    event = ended()
    event["response"] = {**event["response"], "model": "gpt-x"}
    assert decode(event)[-1].model == "gpt-x"
