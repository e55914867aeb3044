"""A conversation told step by step is told as it would be at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.config.settings import ModelInfo
from agents.llm.contract import ModelRequest
from agents.llm.json_text import Encoded, dump
from agents.llm.wires import anthropic, gemini, openai, responses
from agents.llm.wires.openai import Dialect
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import Part, Reasoning, Role, Text, ToolCall, ToolResult

Encode = Callable[[ModelRequest], dict[str, Any]]

ENCODERS: dict[str, Encode] = {
    "openai": openai.encode,
    "openrouter": lambda request: openai.encode(
        request, dialect=Dialect(cache_marks=True, returns_details=True)
    ),
    "anthropic": anthropic.encode,
    "responses": responses.encode,
    "gemini": gemini.encode,
}
TEXTS = st.sampled_from(["", " ", "words", "more words", "\ud83d half"])
IDS = st.sampled_from(["a", "b", "c d", "call_1"])
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, TEXTS),
    st.builds(Reasoning, TEXTS, st.sampled_from(["", "sig"])),
    st.builds(ToolCall, IDS, st.just("view"), st.sampled_from(["{}", '{"a": 1}', "broken"])),
    st.builds(ToolResult, IDS, st.just("view"), TEXTS),
)
MESSAGES = st.builds(
    TurnMessage,
    st.just("m"),
    st.sampled_from([Role.USER, Role.ASSISTANT, Role.TOOL, Role.SYSTEM]),
    st.lists(PARTS, max_size=3).map(tuple),
)


def request(messages: list[TurnMessage], **more: Any) -> ModelRequest:
    model = ModelInfo("anthropic/claude-3-7-sonnet", "C", can_reason=True)
    return ModelRequest(model, "You are you.", tuple(messages), think=True, **more)


@pytest.mark.parametrize("name", ENCODERS)
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(messages=st.lists(MESSAGES, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=8))
def test_it_is_the_same_however_it_grew(
    name: str, messages: list[TurnMessage], cuts: list[int]
) -> None:
    encode = ENCODERS[name]
    memo: dict[Any, Any] = {}
    for stop in [*sorted(cuts), len(messages)]:
        told = messages[:stop]
        grown = dump(encode(request(told, memo=memo)))
        assert orjson.loads(grown) == orjson.loads(dump(encode(request(told))))


@pytest.mark.parametrize("name", ENCODERS)
def test_another_beginning_is_told_anew(name: str) -> None:
    """A summary replaces what was said; a hook rewrites a call of the newest reply."""
    encode = ENCODERS[name]
    said = [
        message
        for n in range(20)
        for message in (
            TurnMessage(f"u{n}", Role.USER, (Text(f"ask {n}"),)),
            TurnMessage(f"a{n}", Role.ASSISTANT, (Text("then"), ToolCall(f"c{n}", "ls", "{}"))),
            TurnMessage("", Role.TOOL, (ToolResult(f"c{n}", "ls", "out"),)),
        )
    ]
    memo: dict[Any, Any] = {}
    for _ in range(3):
        encode(request(said, memo=memo))
    rewritten = [*said]
    call = ToolCall("c19", "ls", '{"path": "x"}')
    rewritten[-2] = replace(said[-2], parts=(Text("then"), call))
    for changed in (rewritten, said[30:], said[:7], [*said[3:6], *said], []):
        grown = dump(encode(request(changed, memo=memo)))
        assert orjson.loads(grown) == orjson.loads(dump(encode(request(changed))))


def test_old_messages_are_kept_as_bytes() -> None:
    said = [
        message
        for n in range(50)
        for message in (
            TurnMessage(f"u{n}", Role.USER, (Text(f"ask {n}"),)),
            TurnMessage(f"a{n}", Role.ASSISTANT, (Text("answer"),)),
        )
    ]
    memo: dict[Any, Any] = {}
    for stop in (60, 80, 100):
        body = openai.encode(request(said[:stop], memo=memo))

    assert isinstance(body["messages"][1], Encoded)
    assert isinstance(body["messages"][-1], dict)


def test_old_bytes_go_along_with_half_of_a_surrogate_pair() -> None:
    body = [Encoded(b'{"old":"words"}'), {"new": "\ud83d"}]

    assert orjson.loads(dump(body)) == [{"old": "words"}, {"new": "?"}]
