"""A model request as the body of Gemini's ``streamGenerateContent``.

Pure. Owns how thought signatures go back: each on the very part it came with, and
only to the model that made it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from agents.llm.content_parts import Image, Told, told_result, told_user
from agents.llm.contract import ModelRequest, ToolSpec
from agents.llm.encode_cache import told_as
from agents.llm.history import AssistantTurn, Turn, UserTurn, system_of
from agents.llm.reasoning_signatures import GEMINI, is_from, unsealed
from workspaces.events.parts import Reasoning, Text, ToolCall

Json = dict[str, Any]

ON_CALL = "call:"  # before a signature that came with a call, else it came with text
# What Google documents for a call that another model has made.
UNSIGNED = "skip_thought_signature_validator"
VERSION = re.compile(r"gemini-(\d{1,2})")
BUDGETS = {"minimal": 512, "low": 2_048, "medium": 8_192, "high": 24_576}
LEVELS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}


def encode(
    request: ModelRequest, *, provider: str = "", extra_body: Mapping[str, Any] | None = None
) -> Json:
    body: Json = {"contents": _contents(request, provider)}
    if system := system_of(request.system, request.messages):
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
    asked: Json = {"maxOutputTokens": request.max_tokens}
    if request.temperature is not None:
        asked["temperature"] = request.temperature
    if request.top_p is not None:
        asked["topP"] = request.top_p
    if request.model.can_reason:
        asked["thinkingConfig"] = _thinking(request)
    body["generationConfig"] = asked
    if extra_body:
        body.update(extra_body)
    return body


def _version(model: str) -> int:
    match = VERSION.search(model)
    return int(match[1]) if match else 0


def _thinking(request: ModelRequest) -> Json:
    """Newer models take a level, older ones a number of tokens."""
    told: Json = {"includeThoughts": True}
    effort = request.reasoning_effort
    if _version(request.model.id) >= 3:
        if effort in LEVELS:
            told["thinkingLevel"] = LEVELS[effort]
    elif effort in BUDGETS:
        told["thinkingBudget"] = BUDGETS[effort]
    return told


def _tool(tool: ToolSpec) -> Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": dict(tool.schema),
    }


def _contents(request: ModelRequest, provider: str) -> list[Json]:
    sees, model = request.model.supports_attachments, request.model.id

    def add_turn(contents: list[Any], turn: Turn) -> None:
        if isinstance(turn, UserTurn):
            parts = [_told(told) for told in told_user(turn, sees=sees)]
            if contents and contents[-1]["role"] == "user":
                contents[-1]["parts"].extend(parts)  # behind the results of the last calls
            else:
                contents.append({"role": "user", "parts": parts})
            return
        is_its = is_from(turn, provider=provider, model=model)
        reply = _reply(turn, is_its=is_its, needs_signature=_version(model) >= 3)
        contents.append({"role": "model", "parts": reply})
        if turn.results:
            contents.append({"role": "user", "parts": _results(turn, sees=sees)})

    return told_as(request, ("gemini", provider, model, sees), add_turn)


def _told(told: Told) -> Json:
    return _image(told) if isinstance(told, Image) else {"text": told}


def _image(image: Image) -> Json:
    if image.url:
        return {"fileData": {"fileUri": image.url}}
    return {"inlineData": {"mimeType": image.mime_type, "data": image.data}}


def _reply(turn: AssistantTurn, *, is_its: bool, needs_signature: bool) -> list[Json]:
    parts: list[Json] = []
    waiting = ""  # the signature of the call that comes next
    called = False
    for part in turn.parts:
        match part:
            case Text():
                parts.append({"text": part.text})
            case Reasoning():
                signature = unsealed(GEMINI, part) if is_its else ""
                if signature.startswith(ON_CALL):
                    waiting = signature.removeprefix(ON_CALL)
                elif signature:
                    parts.append({"text": "", "thoughtSignature": signature})
            case ToolCall():
                call = {"id": part.id, "name": part.name, "args": orjson.loads(part.input)}
                told: Json = {"functionCall": call}
                # Of calls made together only the first is signed.
                missing = UNSIGNED if needs_signature and not called else ""
                if signature := waiting or missing:
                    told["thoughtSignature"] = signature
                waiting, called = "", True
                parts.append(told)
    return parts


def _results(turn: AssistantTurn, *, sees: bool) -> list[Json]:
    """Images follow behind all results: a response itself holds JSON alone."""
    answers: list[Json] = []
    images: list[Json] = []
    for result in turn.results:
        text, image = told_result(result, sees=sees)
        response = {"error" if result.is_error else "output": text}
        answers.append(
            {
                "functionResponse": {
                    "id": result.tool_call_id,
                    "name": result.name,
                    "response": response,
                }
            }
        )
        if image is not None:
            images.append({"text": f"The image that {result.name} returned:"})
            images.append(_image(image))
    return answers + images
