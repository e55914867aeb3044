from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from agents.config.settings import ModelInfo
from agents.llm.http_request import gemini_url
from agents.llm.reasoning_signatures import GEMINI, sealed
from agents.llm.wires.gemini import ON_CALL, UNSIGNED, encode
from tests.doubles.conversation import BLIND, MODEL, assistant, request, tool, user
from workspaces.log.parts import Binary, Reasoning, ToolCall, ToolResult

PNG = b64encode(b"\x89PNG..").decode()
G3 = ModelInfo("gemini-3-pro", "Gemini", can_reason=True, supports_attachments=True)
G2 = ModelInfo("gemini-2.5-pro", "Gemini", can_reason=True)
CALLS = (ToolCall("a", "bash", '{"command":"ls"}', True), ToolCall("b", "view", "{}", True))


def parts(*told: Any, model: ModelInfo = G3, provider: str = "p") -> list[dict[str, Any]]:
    reply = replace(assistant(*told, provider=provider), model=model.id)
    body = encode(request(user("hi"), reply, model=model), provider="p")
    return list(body["contents"][1]["parts"])


def test_a_plain_request() -> None:
    body = encode(request(user("hi"), model=BLIND, temperature=0.5, top_p=0.9))
    assert body == {
        "systemInstruction": {"parts": [{"text": "Be good."}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "bash",
                        "description": "Runs a command.",
                        "parametersJsonSchema": {"type": "object", "properties": {}},
                    }
                ]
            }
        ],
        "generationConfig": {"maxOutputTokens": 8192, "temperature": 0.5, "topP": 0.9},
    }


@pytest.mark.parametrize(
    ("model", "effort", "told"),
    [
        (G3, "", {}),
        (G3, "high", {"thinkingLevel": "high"}),
        (G3, "odd", {}),
        (G2, "low", {"thinkingBudget": 2_048}),
        (G2, "", {}),
    ],
)
def test_thoughts_are_asked_for_as_each_model_knows(
    model: ModelInfo, effort: str, told: dict[str, Any]
) -> None:
    body = encode(request(user("hi"), model=model, reasoning_effort=effort))
    assert body["generationConfig"]["thinkingConfig"] == {"includeThoughts": True, **told}


def test_a_signature_goes_back_on_the_call_it_came_with() -> None:
    told = parts(Reasoning("hm", sealed(GEMINI, ON_CALL + "sig")), *CALLS)
    assert [part.get("thoughtSignature") for part in told] == ["sig", None]
    assert told[0]["functionCall"] == {"id": "a", "name": "bash", "args": {"command": "ls"}}


def test_a_signature_of_words_goes_back_behind_them() -> None:
    assert parts("words", Reasoning("", sealed(GEMINI, "sig"))) == [
        {"text": "words"},
        {"text": "", "thoughtSignature": "sig"},
    ]


def test_the_calls_of_another_model_are_marked_as_such() -> None:
    for told in (
        parts(Reasoning("hm", sealed(GEMINI, ON_CALL + "sig")), *CALLS, provider="q"),
        parts(Reasoning("hm", "EqQBCg"), *CALLS),
        parts(*CALLS),
    ):
        assert [part.get("thoughtSignature") for part in told] == [UNSIGNED, None]
    assert "thoughtSignature" not in parts(*CALLS, model=G2)[0]


def test_results_follow_in_order_and_images_behind_them() -> None:
    body = encode(
        request(
            user("see", Binary("a.png", "image/png", PNG)),
            assistant(*CALLS),
            tool(
                ToolResult("a", "bash", "no", is_error=True),
                ToolResult("b", "view", "", data=PNG, mime_type="image/png"),
            ),
            user("go on", id="u2"),
            model=MODEL,
        )
    )
    image = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    assert body["contents"][0]["parts"][1] == image
    answers = body["contents"][2]
    assert answers["role"] == "user"
    assert [part.get("functionResponse") for part in answers["parts"][:2]] == [
        {"id": "a", "name": "bash", "response": {"error": "no"}},
        {"id": "b", "name": "view", "response": {"output": "(an image)"}},
    ]
    assert answers["parts"][3:] == [image, {"text": "go on"}]


@pytest.mark.parametrize(
    ("base", "model", "url"),
    [
        ("", "g", "https://generativelanguage.googleapis.com/v1beta/models/g"),
        ("http://h/v1beta/openai/", "models/g", "http://h/v1beta/models/g"),
        ("http://h/v1beta?key=1", "a/../b", "http://h/v1beta/models/a%2F..%2Fb"),
    ],
)
def test_the_model_stands_in_the_address(base: str, model: str, url: str) -> None:
    assert gemini_url(base, model) == f"{url}:streamGenerateContent?alt=sse"
