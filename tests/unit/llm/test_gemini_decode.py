import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.contract import Stopped, ToolCallStarted, ToolInputDelta, Usage
from agents.llm.errors import BrokenStream
from agents.llm.wires.gemini import GeminiDecoder
from workspaces.log.parts import FinishReason


def decode(*chunks: dict[str, Any]) -> list[Any]:
    decoder = GeminiDecoder(make_id=lambda: "made")
    told = [event for chunk in chunks for event in decoder.feed(json.dumps(chunk).encode())]
    return told + decoder.end()


def said(*parts: dict[str, Any], finish: str = "") -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}]}


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("STOP", FinishReason.END_TURN),
        ("MAX_TOKENS", FinishReason.MAX_TOKENS),
        ("RECITATION", FinishReason.CONTENT_FILTER),
        ("PROHIBITED_CONTENT", FinishReason.CONTENT_FILTER),
        ("OTHER", FinishReason.UNKNOWN),
    ],
)
def test_the_end_says_why(finish: str, reason: FinishReason) -> None:
    assert decode(said({"text": "x"}, finish=finish))[-1] == Stopped(reason)


def test_a_prompt_that_is_blocked_ends_as_a_refusal() -> None:
    told = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}}
    assert decode(told) == [Stopped(FinishReason.CONTENT_FILTER, Usage(9))]


def test_a_call_that_the_model_garbled_is_asked_for_again() -> None:
    with pytest.raises(BrokenStream, match="tool call"):
        decode(said(finish="MALFORMED_FUNCTION_CALL"))


def test_a_call_without_id_or_arguments_is_one_all_the_same() -> None:
    told = decode(said({"functionCall": {"name": "ls"}}, finish="STOP"))
    assert told[:2] == [ToolCallStarted("made", "ls"), ToolInputDelta("made", "{}")]
    assert told[-1].reason is FinishReason.TOOL_USE


def test_the_last_counts_are_the_ones_that_hold() -> None:
    first = said({"text": "x"}) | {"usageMetadata": {"promptTokenCount": 5}}
    last = said(finish="STOP") | {
        "usageMetadata": {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 60,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 3,
            "toolUsePromptTokenCount": 2,
        }
    }
    assert decode(first, last)[-1].usage == Usage(42, 10, 60)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "content",
                    "parts",
                    "text",
                    "functionCall",
                    "args",
                    "thoughtSignature",
                    "finishReason",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["candidates", "usageMetadata", "promptFeedback"]), JSON))
def test_nothing_but_a_broken_stream_comes_of_anything(chunk: dict[str, Any]) -> None:
    decoder = GeminiDecoder()
    try:
        decoder.feed(json.dumps(chunk).encode())
        decoder.end()
    except BrokenStream:
        pass


def test_the_model_that_replied_is_its_version() -> None:
    assert decode(said(finish="STOP") | {"modelVersion": "gemini-x"})[-1].model == "gemini-x"
