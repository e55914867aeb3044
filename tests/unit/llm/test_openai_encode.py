from base64 import b64encode

import orjson

from agents.llm.wires.openai import NATIVE, PLAIN, dialect_at, encode
from tests.doubles.conversation import BASH, BLIND, MODEL, assistant, request, tool, user
from workspaces.log.parts import Binary, Reasoning, ToolCall, ToolResult

PNG = b64encode(b"\x89PNG..").decode()


def test_a_plain_request_is_understood_by_every_server() -> None:
    body = encode(request(user("hi"), temperature=0.5, top_p=0.9, session_id="s"))
    assert body == {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 8192,
        "temperature": 0.5,
        "top_p": 0.9,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "bash",
                    "description": "Runs a command.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
    }


def test_openai_itself_is_sent_the_newer_names() -> None:
    body = encode(
        request(user("hi"), temperature=0.5, session_id="s", reasoning_effort="low"),
        dialect=dialect_at("https://api.openai.com/v1"),
    )
    assert body["max_completion_tokens"] == 8192
    assert body["prompt_cache_key"] == "s"
    assert body["reasoning_effort"] == "low"
    assert not {"max_tokens", "temperature"} & set(body)


def test_effort_is_not_asked_of_a_model_that_does_not_reason() -> None:
    body = encode(request(user("hi"), model=BLIND, reasoning_effort="low", tools=()))
    assert not {"reasoning_effort", "tools"} & set(body)


def test_calls_and_results_are_paired_and_reasoning_is_left_out() -> None:
    body = encode(
        request(
            user("hi"),
            assistant(
                Reasoning("hm", "sig"), "I look", ToolCall("a", "bash", '{"command": "ls"}', True)
            ),
            tool(ToolResult("a", "bash", "files")),
        )
    )
    assert body["messages"][2:] == [
        {
            "role": "assistant",
            "content": "I look",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "bash", "arguments": '{"command":"ls"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "files"},
    ]


def test_images_of_users_and_of_tools_are_shown() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    body = encode(
        request(
            user("see", Binary("a.png", "image/png", PNG)),
            assistant(ToolCall("a", "view", "{}", True), ToolCall("b", "view", "{}", True)),
            tool(ToolResult("a", "view", "", data=PNG, mime_type="image/png")),
            tool(ToolResult("b", "view", "x")),
        )
    )
    assert body["messages"][1]["content"] == [{"type": "text", "text": "see"}, image]
    assert [message["role"] for message in body["messages"][3:]] == ["tool", "tool", "user"]
    assert body["messages"][3]["content"] == "(an image)"
    assert body["messages"][5]["content"][1] == image


def test_the_extra_body_has_the_last_word_but_the_stream_stays() -> None:
    body = encode(request(user("hi")), extra_body={"max_tokens": 5, "stream": False, "top_k": 1})
    assert (body["max_tokens"], body["stream"], body["top_k"]) == (5, True, 1)


def test_an_address_that_cannot_be_read_is_not_taken_for_openai() -> None:
    assert dialect_at("http://[") == PLAIN
    assert dialect_at("https://api.openai.com.example.org/v1") == PLAIN
    assert dialect_at("https://mine.openai.azure.com") == NATIVE


def test_the_body_is_json() -> None:
    assert orjson.dumps(
        encode(request(user("hi"), assistant("x"), user("y"), model=MODEL, tools=(BASH,)))
    )
