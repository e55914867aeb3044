from base64 import b64encode
from dataclasses import replace

import orjson

from agents.llm.reasoning_signatures import RESPONSES, sealed
from agents.llm.wires.responses import encode
from tests.doubles.conversation import BLIND, assistant, request, tool, user
from workspaces.log.parts import Binary, Reasoning, ToolCall, ToolResult

PNG = b64encode(b"\x89PNG..").decode()
SEALED = sealed(RESPONSES, "gAAAA")


def test_nothing_is_stored_and_reasoning_is_asked_for_encrypted() -> None:
    body = encode(request(user("hi"), session_id="s", reasoning_effort="low", temperature=1.0))
    assert body == {
        "model": "m-1",
        "instructions": "Be good.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
        ],
        "tools": [
            {
                "type": "function",
                "name": "bash",
                "description": "Runs a command.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "parallel_tool_calls": True,
        "max_output_tokens": 8192,
        "reasoning": {"summary": "auto", "effort": "low"},
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "s",
        "store": False,
        "stream": True,
    }


def test_a_model_that_does_not_reason_is_told_how_to_sample() -> None:
    body = encode(request(user("hi"), model=BLIND, temperature=0.5, top_p=0.9, max_tokens=3))
    assert (body["temperature"], body["top_p"], body["max_output_tokens"]) == (0.5, 0.9, 16)
    assert not {"reasoning", "include"} & set(body)


def test_reasoning_stands_before_the_call_it_led_to() -> None:
    reply = assistant(
        Reasoning("I look.", SEALED), "Well.", ToolCall("a", "bash", '{"command": "ls"}', True)
    )
    body = encode(request(user("hi"), reply, tool(ToolResult("a", "bash", "x"))), provider="p")
    assert body["input"][1:] == [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "I look."}],
            "encrypted_content": "gAAAA",
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Well."}],
        },
        {
            "type": "function_call",
            "call_id": "a",
            "name": "bash",
            "arguments": '{"command":"ls"}',
        },
        {"type": "function_call_output", "call_id": "a", "output": "x"},
    ]


def test_reasoning_of_others_and_at_the_end_is_left_out() -> None:
    call = ToolCall("a", "bash", "{}", True)
    foreign = (
        assistant(Reasoning("hm", SEALED), call, provider="q"),
        replace(assistant(Reasoning("hm", SEALED), call), model="m-0"),
        assistant(Reasoning("hm", "EqQBCg"), call),
        assistant(Reasoning("hm", "gemini:gAAAA"), call),
        assistant("words", Reasoning("hm", SEALED)),
    )
    for reply in foreign:
        items = encode(request(user("hi"), reply), provider="p")["input"]
        assert all(item["type"] != "reasoning" for item in items), reply


def test_images_of_users_and_of_tools_are_shown() -> None:
    image = {
        "type": "input_image",
        "image_url": f"data:image/png;base64,{PNG}",
        "detail": "auto",
    }
    body = encode(
        request(
            user("see", Binary("a.png", "image/png", PNG)),
            assistant(ToolCall("a", "view", "{}", True)),
            tool(ToolResult("a", "view", "", data=PNG, mime_type="image/png")),
        )
    )
    assert body["input"][0]["content"][1] == image
    assert body["input"][2]["output"] == [{"type": "input_text", "text": "(an image)"}, image]


def test_the_extra_body_has_the_last_word_but_the_stream_stays() -> None:
    extra = {"stream": False, "store": True, "reasoning": {"effort": "high"}}
    body = encode(request(user("hi")), extra_body=extra)
    assert (body["stream"], body["store"], body["reasoning"]) == (True, True, {"effort": "high"})
    assert orjson.dumps(body)
