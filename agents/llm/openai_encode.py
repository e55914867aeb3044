"""A model request as the body of OpenAI's chat completions.

Pure. Compatible servers differ in what they know; only ``api.openai.com`` is
sent the newer names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from agents.llm.contract import ModelRequest, ToolSpec
from agents.llm.history import AssistantTurn, Turn, UserTurn, repaired, system_of
from agents.llm.told import Image, Told, told_result, told_user
from workspaces.events.parts import Text

Json = dict[str, Any]


def encode(
    request: ModelRequest, *, base_url: str = "", extra_body: Mapping[str, Any] | None = None
) -> Json:
    native = _is_openai(base_url)
    reasons = native and request.model.can_reason
    body: Json = {
        "model": request.model.id,
        "messages": _messages(request),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens" if native else "max_tokens": request.max_tokens,
    }
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    # OpenAI's reasoning models refuse both.
    if request.temperature is not None and not reasons:
        body["temperature"] = request.temperature
    if request.top_p is not None and not reasons:
        body["top_p"] = request.top_p
    if request.reasoning_effort and request.model.can_reason:
        body["reasoning_effort"] = request.reasoning_effort
    if native and request.session_id:
        body["prompt_cache_key"] = request.session_id
    if extra_body:
        body.update(extra_body)
        body["stream"] = True
    return body


def _is_openai(base_url: str) -> bool:
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    return host == "api.openai.com" or host.endswith((".api.openai.com", ".openai.azure.com"))


def _tool(tool: ToolSpec) -> Json:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.schema),
        },
    }


def _messages(request: ModelRequest) -> list[Json]:
    messages: list[Json] = []
    system = system_of(request.system, request.messages)
    if system:
        messages.append({"role": "system", "content": system})
    for turn in repaired(request.messages):
        messages.extend(_turn(turn, sees=request.model.supports_attachments))
    return messages


def _turn(turn: Turn, *, sees: bool) -> list[Json]:
    if isinstance(turn, UserTurn):
        return [{"role": "user", "content": _content(told_user(turn, sees=sees))}]
    return [_reply(turn), *_results(turn, sees=sees)]


def _content(told: list[Told]) -> str | list[Json]:
    """A plain string where possible: some compatible servers know nothing else."""
    if all(isinstance(item, str) for item in told):
        return "\n\n".join(item for item in told if isinstance(item, str))
    return [
        _image(item) if isinstance(item, Image) else {"type": "text", "text": item} for item in told
    ]


def _image(image: Image) -> Json:
    url = image.url or f"data:{image.mime_type};base64,{image.data}"
    detail = {"detail": image.detail} if image.detail in ("low", "high", "auto") else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _reply(turn: AssistantTurn) -> Json:
    text = "".join(part.text for part in turn.parts if isinstance(part, Text))
    message: Json = {"role": "assistant", "content": text or None}
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.input},
            }
            for call in turn.calls
        ]
    return message


def _results(turn: AssistantTurn, *, sees: bool) -> list[Json]:
    """A tool message holds text alone, so images follow in a message of the user's."""
    messages: list[Json] = []
    images: list[Json] = []
    for result in turn.results:
        text, image = told_result(result, sees=sees)
        messages.append({"role": "tool", "tool_call_id": result.tool_call_id, "content": text})
        if image is not None:
            images.append({"type": "text", "text": f"The image that {result.name} returned:"})
            images.append(_image(image))
    if images:
        messages.append({"role": "user", "content": images})
    return messages
