from base64 import b64encode
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.config.settings import ModelInfo
from agents.llm.wires.anthropic import encode
from agents.turn.transcript import TurnMessage
from tests.doubles.conversation import assistant, request, tool, user
from tests.unit.llm.test_history import MESSAGES
from workspaces.log.parts import Binary, ImageUrl, Reasoning, ToolCall, ToolResult

PNG = b64encode(b"\x89PNG..").decode()
MARK = {"cache_control": {"type": "ephemeral"}}
CALL = ToolCall("a", "bash", '{"command": "ls"}', True)


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def model(id: str) -> ModelInfo:
    return ModelInfo(id, id, can_reason=True)


def test_a_plain_request_is_marked_for_the_cache() -> None:
    assert encode(request(user("hi"), temperature=0.5)) == {
        "model": "m-1",
        "max_tokens": 8192,
        "stream": True,
        "temperature": 0.5,
        "system": [text("Be good.", **MARK)],
        "tools": [
            {
                "name": "bash",
                "description": "Runs a command.",
                "input_schema": {"type": "object", "properties": {}},
                **MARK,
            }
        ],
        "messages": [{"role": "user", "content": [text("hi", **MARK)]}],
    }


def test_without_a_system_prompt_the_tools_are_marked() -> None:
    body = encode(request(user("hi"), system=""))
    assert "system" not in body
    assert body["tools"][-1]["cache_control"] == {"type": "ephemeral"}


def test_all_results_of_a_reply_and_the_next_prompt_are_one_user_message() -> None:
    body = encode(
        request(
            user("hi"),
            assistant("I look", CALL, ToolCall("b", "view", "{}", True)),
            tool(ToolResult("a", "bash", "files")),
            tool(ToolResult("b", "view", "", is_error=True)),
            user("and?"),
        )
    )
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                text("I look"),
                {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "b", "name": "view", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [text("files")]},
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "content": [text("(no output)")],
                    "is_error": True,
                },
                text("and?", **MARK),
            ],
        },
    ]


def test_images_are_given_where_they_belong() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    body = encode(
        request(
            user("see", Binary("a.png", "image/png", PNG), ImageUrl("https://x/y.png")),
            assistant(CALL),
            tool(ToolResult("a", "bash", "", data=PNG, mime_type="image/png")),
        )
    )
    image = {"type": "image", "source": source}
    assert body["messages"][0]["content"][1:] == [
        image,
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}, **MARK},
    ]
    assert body["messages"][2]["content"][0]["content"] == [text("(an image)"), image]


def test_signed_thinking_goes_back_to_who_made_it() -> None:
    said = assistant(
        Reasoning("hm", "sig"), Reasoning("", "redacted:xyz"), Reasoning("unsigned"), CALL
    )
    asked = request(user("hi"), said, tool(ToolResult("a", "bash", "x")), think=True)
    ours = encode(asked, provider="p")
    assert ours["messages"][1]["content"][:-1] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
    ]
    assert ours["thinking"] == {"type": "enabled", "budget_tokens": 4096}
    other = encode(asked, provider="other")
    assert [block["type"] for block in other["messages"][1]["content"]] == ["tool_use"]
    assert "thinking" not in other  # a call in hand that was made without our thinking


def test_a_reply_that_was_cut_in_a_thought_ends_in_its_words() -> None:
    said = assistant("words  \n", Reasoning("hm", "sig"))
    body = encode(request(user("hi"), said, user("go on"), think=True), provider="p")
    assert body["messages"][1]["content"] == [text("words")]


@pytest.mark.parametrize(
    ("name", "effort", "thinking"),
    [
        ("claude-3-7-sonnet-20250219", "low", {"type": "enabled", "budget_tokens": 2048}),
        ("claude-opus-4-20250514", "", {"type": "enabled", "budget_tokens": 4096}),
        ("claude-sonnet-4-5-20250929", "high", {"type": "enabled", "budget_tokens": 4096}),
        ("claude-opus-4-6", "high", {"type": "adaptive"}),
        ("anthropic/claude-opus-4.7", "max", {"type": "adaptive", "display": "summarized"}),
        ("claude-sonnet-5", "odd", {"type": "adaptive", "display": "summarized"}),
        ("something-else", "", {"type": "enabled", "budget_tokens": 4096}),
    ],
)
def test_each_model_is_asked_to_think_in_its_own_way(
    name: str, effort: str, thinking: dict[str, Any]
) -> None:
    asked = request(
        user("hi"), model=model(name), think=True, reasoning_effort=effort, temperature=1.0
    )
    body = encode(asked)
    assert body["thinking"] == thinking
    assert "temperature" not in body
    wanted = {"effort": effort} if thinking["type"] == "adaptive" and effort != "odd" else None
    assert body.get("output_config") == wanted


def test_too_few_tokens_leave_no_room_for_thinking() -> None:
    assert "thinking" not in encode(request(user("hi"), think=True, max_tokens=1000))


def test_newer_models_are_never_told_how_to_sample() -> None:
    asked = request(user("hi"), model=model("claude-opus-4-7"), temperature=0.2, top_p=0.3)
    assert not {"temperature", "top_p"} & set(encode(asked))


def test_of_two_ways_to_sample_one_is_sent() -> None:
    assert encode(request(user("hi"), top_p=0.3))["top_p"] == 0.3
    assert "top_p" not in encode(request(user("hi"), temperature=0.2, top_p=0.3))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(MESSAGES, max_size=8))
def test_whatever_is_stored_the_roles_alternate_and_no_block_is_empty(
    messages: list[TurnMessage],
) -> None:
    body = encode(request(*messages, think=True), provider="")
    roles = [message["role"] for message in body["messages"]]
    assert roles[0] == "user"
    assert all(a != b for a, b in pairwise(roles))
    marks = 1  # the system prompt's
    for message in body["messages"]:
        assert message["content"]
        for block in message["content"]:
            marks += "cache_control" in block
            assert block["type"] != "text" or block["text"].strip()
    assert marks <= 4


def test_what_another_wire_has_kept_is_never_sent() -> None:
    call = ToolCall("a", "bash", "{}", True)
    for signature in ("gemini:call:x", "openai-responses:gAAAA", "reasoning-details:[]"):
        for messages in (
            (user("hi"), assistant(Reasoning("hm", signature), call)),
            (user("hi"), assistant(Reasoning("hm", signature), "x"), user("go on", id="u2")),
        ):
            body = encode(request(*messages, think=True), provider="p")
            assert signature not in str(body)
