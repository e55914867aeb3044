from dataclasses import replace
from typing import Any

import pytest

from agents.config.settings import ProviderSettings
from agents.llm.errors import BrokenStream
from agents.llm.reasoning_signatures import DETAILS, LIMIT, Details, details_of, sealed
from agents.llm.wires.openai import (
    GROQ,
    NATIVE,
    OPENROUTER,
    PLAIN,
    THINKING,
    Dialect,
    dialect_of,
    encode,
)
from tests.doubles.conversation import MODEL, assistant, request, tool, user
from workspaces.log.parts import Reasoning, Text, ToolCall, ToolResult

MARK = {"type": "ephemeral"}
CLAUDE = replace(MODEL, id="anthropic/claude-sonnet-5.5")
CALL = ToolCall("a", "bash", "{}", True)


@pytest.mark.parametrize(
    ("id", "kind", "base_url", "dialect"),
    [
        ("openrouter", "openai-compat", "http://127.0.0.1:1", OPENROUTER),
        ("mine", "openai-compat", "https://openrouter.ai/api/v1", OPENROUTER),
        ("mine", "openai-compat", "https://api.deepseek.com/v1", THINKING),
        ("mine", "openai-compat", "https://api.moonshot.ai/v1", THINKING),
        ("mine", "openai-compat", "https://api.groq.com/openai/v1", GROQ),
        ("mine", "openai-compat", "https://notgroq.com/openai/v1", PLAIN),
        ("mine", "azure", "https://x.example", NATIVE),
        ("mine", "openai", "https://api.openai.com/v1", NATIVE),
        ("mine", "openai-compat", "http://[", PLAIN),
    ],
)
def test_a_dialect_is_known_by_id_or_host(
    id: str, kind: str, base_url: str, dialect: Dialect
) -> None:
    assert dialect_of(ProviderSettings(id, "X", kind, base_url)) == dialect


def test_anthropics_models_at_openrouter_are_marked_for_the_cache() -> None:
    messages = (
        user("first", id="u1"),
        assistant(CALL),
        tool(ToolResult("a", "bash", "x")),
        user("second", id="u2"),
    )
    told = encode(request(*messages, model=CLAUDE), dialect=OPENROUTER)["messages"]
    marked = [message["role"] for message in told if "cache_control" in str(message)]
    assert marked == ["system", "tool", "user"]
    assert told[-1]["content"] == [{"type": "text", "text": "second", "cache_control": MARK}]
    for other in (
        encode(request(*messages), dialect=OPENROUTER),
        encode(request(*messages, model=CLAUDE), dialect=PLAIN),
    ):
        assert "cache_control" not in str(other)


@pytest.mark.parametrize(
    ("dialect", "model", "more", "told"),
    [
        (OPENROUTER, MODEL, {"think": True}, {"reasoning": {"enabled": True}}),
        (OPENROUTER, MODEL, {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
        (OPENROUTER, MODEL, {}, {}),
        (GROQ, replace(MODEL, id="qwen/qwen3-32b"), {}, {"reasoning_format": "parsed"}),
        (GROQ, replace(MODEL, id="openai/gpt-oss-20b"), {}, {}),
        (PLAIN, MODEL, {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
    ],
)
def test_reasoning_is_asked_for_in_each_ones_words(
    dialect: Dialect, model: Any, more: dict[str, Any], told: dict[str, Any]
) -> None:
    body = encode(request(user("hi"), model=model, **more), dialect=dialect)
    assert {name: value for name, value in body.items() if "reasoning" in name} == told


def test_thoughts_go_back_beside_the_calls_they_led_to_and_no_others() -> None:
    for reply, provider, told in (
        (assistant(Reasoning("hm"), CALL), "p", "hm"),
        (assistant(Reasoning("hm"), CALL, provider="q"), "p", None),
        (assistant(Reasoning("hm"), "words"), "p", None),
    ):
        body = encode(request(user("hi"), reply), provider=provider, dialect=THINKING)
        assert body["messages"][2].get("reasoning_content") == told


def test_details_are_joined_as_they_come_and_given_back_whole() -> None:
    details = Details()
    text = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    details.add([text | {"text": "a"}])
    details.add([text | {"text": "b"}, text | {"signature": "sig", "text": None}])
    details.add([{"type": "reasoning.encrypted", "index": 0, "data": "x"}])
    details.add([{"type": "reasoning.encrypted", "index": 0, "data": "y"}, "noise", None])
    details.add("noise")
    kept = [
        text | {"text": "ab", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 0, "data": "x"},
        {"type": "reasoning.encrypted", "index": 0, "data": "y"},
    ]
    part = Reasoning("ab", sealed(DETAILS, details.taken()))
    assert details_of((part, Text("x"), Reasoning("", f"{DETAILS}:[broken"))) == kept
    assert details.taken() == ""
    body = encode(request(user("hi"), assistant(part, CALL)), provider="p", dialect=OPENROUTER)
    assert body["messages"][2]["reasoning_details"] == kept


def test_details_without_end_are_a_broken_stream() -> None:
    with pytest.raises(BrokenStream):
        Details().add([{"type": "reasoning.text", "text": "x" * (LIMIT + 1)}])
    endless = Details()
    with pytest.raises(BrokenStream):
        endless.add([{"type": "reasoning.encrypted", "data": ""}] * 2_000)
