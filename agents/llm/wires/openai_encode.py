"""A model request as the body of OpenAI's chat completions.

Pure. Compatible servers differ in what they know (``agents.llm.wires.openai_dialects``);
only OpenAI itself is sent the newer names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.llm.content_parts import Image, Told, told_result, told_user
from agents.llm.contract import ModelRequest, ToolSpec
from agents.llm.encode_cache import READABLE, told_as
from agents.llm.history import AssistantTurn, Turn, UserTurn, system_of
from agents.llm.reasoning_signatures import is_from
from agents.llm.wires.openai_dialects import PLAIN, Dialect
from agents.llm.wires.reasoning_details import details_of
from workspaces.events.parts import Reasoning, Text

Json = dict[str, Any]

CACHED: Json = {"type": "ephemeral"}


def encode(
    request: ModelRequest,
    *,
    provider: str = "",
    dialect: Dialect = PLAIN,
    extra_body: Mapping[str, Any] | None = None,
) -> Json:
    native = dialect.native
    reasons = native and request.model.can_reason
    messages = _messages(request, provider, dialect)
    if dialect.cache_marks and _is_anthropic(request.model.id):
        _mark(messages)
    body: Json = {
        "model": request.model.id,
        "messages": messages,
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
    if request.model.can_reason:
        body.update(_reasoning(request, dialect))
    if native and request.session_id:
        body["prompt_cache_key"] = request.session_id
    if extra_body:
        body.update(extra_body)
        body["stream"] = True
    return body


def _reasoning(request: ModelRequest, dialect: Dialect) -> Json:
    effort = request.reasoning_effort
    if dialect.reasoning_switch:
        asked: Json = {"effort": effort} if effort else {"enabled": True}
        return {"reasoning": asked} if effort or request.think else {}
    asked = {"reasoning_effort": effort} if effort else {}
    if dialect.parsed_reasoning and "gpt-oss" not in request.model.id:
        asked["reasoning_format"] = "parsed"
    return asked


def _is_anthropic(model: str) -> bool:
    return model.startswith(("anthropic/", "~anthropic/"))


def _mark(messages: list[Json]) -> None:
    """The system prompt and the newest two that are not the model's own. What is kept for the
    next request stays as it is."""
    marked = [0] if messages[0]["role"] == "system" else []
    newest = range(len(messages) - 1, max(len(messages) - READABLE, 0) - 1, -1)
    marked += [index for index in newest if messages[index]["role"] in ("user", "tool")][:2]
    for index in marked:
        message = messages[index]
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        last = {**blocks[-1], "cache_control": CACHED}
        messages[index] = {**message, "content": [*blocks[:-1], last]}


def _tool(tool: ToolSpec) -> Json:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.schema),
        },
    }


def _messages(request: ModelRequest, provider: str, dialect: Dialect) -> list[Json]:
    system = system_of(request.system, request.messages)
    first = [{"role": "system", "content": system}] if system else []
    sees, model = request.model.supports_attachments, request.model.id

    def add_turn(messages: list[Any], turn: Turn) -> None:
        if isinstance(turn, UserTurn):
            messages.append({"role": "user", "content": _content(told_user(turn, sees=sees))})
            return
        reply = _reply(turn)
        if is_from(turn, provider=provider, model=model):
            reply |= _thoughts(turn, dialect)
        messages += [reply, *_results(turn, sees=sees)]

    return first + told_as(request, ("openai", provider, model, sees, dialect), add_turn)


def _thoughts(turn: AssistantTurn, dialect: Dialect) -> Json:
    """What the model's maker wants back of its reasoning."""
    if dialect.returns_details and (details := details_of(turn.parts)):
        return {"reasoning_details": details}
    if dialect.returns_reasoning and turn.calls:
        thought = "".join(part.thinking for part in turn.parts if isinstance(part, Reasoning))
        return {"reasoning_content": thought} if thought else {}
    return {}


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
