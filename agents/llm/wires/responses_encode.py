"""A model request as the body of OpenAI's responses API.

Pure. Nothing is stored at OpenAI (``store: false``): its reasoning comes to us
encrypted and goes back with the transcript, to the model that made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.llm.content_parts import Image, Told, told_result, told_user
from agents.llm.contract import ModelRequest, ToolSpec
from agents.llm.encode_cache import told_as
from agents.llm.history import AssistantTurn, Turn, UserTurn, system_of
from agents.llm.reasoning_signatures import RESPONSES, is_from, unsealed
from workspaces.events.parts import Reasoning, Text, ToolCall, ToolResult

Json = dict[str, Any]

LEAST_TOKENS = 16  # less is refused


def encode(
    request: ModelRequest, *, provider: str = "", extra_body: Mapping[str, Any] | None = None
) -> Json:
    reasons = request.model.can_reason
    body: Json = {
        "model": request.model.id,
        "input": _items(request, provider),
        "max_output_tokens": max(request.max_tokens, LEAST_TOKENS),
        "store": False,
        "stream": True,
    }
    if system := system_of(request.system, request.messages):
        body["instructions"] = system
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body["parallel_tool_calls"] = True
    if reasons:
        # These models refuse to be told how to sample, others to encrypt their reasoning.
        effort = {"effort": request.reasoning_effort} if request.reasoning_effort else {}
        body["reasoning"] = {"summary": "auto", **effort}
        body["include"] = ["reasoning.encrypted_content"]
    else:
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.top_p is not None:
            body["top_p"] = request.top_p
    if request.session_id:
        body["prompt_cache_key"] = request.session_id
    if extra_body:
        body.update(extra_body)
        body["stream"] = True
    return body


def _tool(tool: ToolSpec) -> Json:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.schema),
        "strict": False,  # strict schemas know no optional argument
    }


def _items(request: ModelRequest, provider: str) -> list[Json]:
    model = request.model
    sees = model.supports_attachments

    def add_turn(items: list[Any], turn: Turn) -> None:
        if isinstance(turn, UserTurn):
            content = [_told(told) for told in told_user(turn, sees=sees)]
            items.append({"type": "message", "role": "user", "content": content})
            return
        is_its = is_from(turn, provider=provider, model=model.id)
        items.extend(_reply(turn, keeps_reasoning=is_its and model.can_reason))
        items.extend(_result(result, sees=sees) for result in turn.results)

    key = ("responses", provider, model.id, sees, model.can_reason)
    return told_as(request, key, add_turn)


def _told(told: Told) -> Json:
    if isinstance(told, str):
        return {"type": "input_text", "text": told}
    return _image(told)


def _image(image: Image) -> Json:
    url = image.url or f"data:{image.mime_type};base64,{image.data}"
    detail = image.detail if image.detail in ("low", "high") else "auto"
    return {"type": "input_image", "image_url": url, "detail": detail}


def _reply(turn: AssistantTurn, *, keeps_reasoning: bool) -> list[Json]:
    items: list[Json] = []
    for part in turn.parts:
        match part:
            case Text():
                said = {"type": "output_text", "text": part.text}
                items.append({"type": "message", "role": "assistant", "content": [said]})
            case ToolCall():
                items.append(
                    {
                        "type": "function_call",
                        "call_id": part.id,
                        "name": part.name,
                        "arguments": part.input,
                    }
                )
            case Reasoning():
                if keeps_reasoning and (encrypted := unsealed(RESPONSES, part)):
                    items.append(_thought(part, encrypted))
    # A cancelled reply may end in a thought, which is refused without what follows from it.
    while items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _thought(part: Reasoning, encrypted: str) -> Json:
    summary = [{"type": "summary_text", "text": part.thinking}] if part.thinking else []
    return {"type": "reasoning", "summary": summary, "encrypted_content": encrypted}


def _result(result: ToolResult, *, sees: bool) -> Json:
    text, image = told_result(result, sees=sees)
    output: str | list[Json] = text
    if image is not None:
        output = [{"type": "input_text", "text": text}, _image(image)]
    return {"type": "function_call_output", "call_id": result.tool_call_id, "output": output}
