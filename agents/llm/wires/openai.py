"""The wire to OpenAI's chat completions and to compatible servers.

Azure has the same API at its own address, with the key in another header.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Unpack
from urllib.parse import urlsplit

from agents.config.settings import ProviderSettings
from agents.llm.content_parts import Image, ModelContent, result_parts, user_parts
from agents.llm.contract import ModelEvent, ModelRequest, ToolSpec
from agents.llm.encode_cache import READABLE, encode_incrementally
from agents.llm.history import AssistantTurn, Turn, UserTurn, system_of
from agents.llm.http_request import (
    azure_url,
    bearer,
    is_openai,
    openai_url,
    request_headers,
)
from agents.llm.http_stream import HttpWire, WireOptions
from agents.llm.json_text import dump
from agents.llm.reasoning_signatures import details_of, is_from
from agents.llm.wires.openai_decode import OpenAIDecoder
from workspaces.log.parts import Reasoning, Text


@dataclass(frozen=True, slots=True)
class Dialect:
    native: bool = False  # supports OpenAI's newer names
    returns_reasoning: bool = False  # requires ``reasoning_content`` back with the calls
    returns_details: bool = False  # requires ``reasoning_details`` back unchanged
    cache_marks: bool = False  # forwards Anthropic's cache marks
    reasoning_switch: bool = False  # ``reasoning: {enabled, effort}`` instead of one word
    parsed_reasoning: bool = False  # separates reasoning from text on request only


PLAIN = Dialect()
NATIVE = Dialect(native=True)
OPENROUTER = Dialect(returns_details=True, cache_marks=True, reasoning_switch=True)
THINKING = Dialect(returns_reasoning=True)
GROQ = Dialect(parsed_reasoning=True)

_BY_ID = {"openrouter": OPENROUTER, "deepseek": THINKING, "groq": GROQ}
_BY_HOST = (
    ("openrouter.ai", OPENROUTER),
    ("deepseek.com", THINKING),
    ("moonshot.ai", THINKING),
    ("moonshot.cn", THINKING),
    ("z.ai", THINKING),
    ("groq.com", GROQ),
    ("openai.azure.com", NATIVE),
    ("services.ai.azure.com", NATIVE),
)


def dialect_of(settings: ProviderSettings) -> Dialect:
    if settings.kind == "azure":
        return NATIVE
    return _BY_ID.get(settings.id) or dialect_at(settings.base_url)


def dialect_at(base_url: str) -> Dialect:
    if is_openai(base_url):
        return NATIVE
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return PLAIN
    return next(
        (dialect for name, dialect in _BY_HOST if host == name or host.endswith(f".{name}")),
        PLAIN,
    )


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
    # OpenAI's reasoning models refuse both parameters.
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
        options: Json = {"effort": effort} if effort else {"enabled": True}
        return {"reasoning": options} if effort or request.think else {}
    options = {"reasoning_effort": effort} if effort else {}
    if dialect.parsed_reasoning and "gpt-oss" not in request.model.id:
        options["reasoning_format"] = "parsed"
    return options


def _is_anthropic(model: str) -> bool:
    return model.startswith(("anthropic/", "~anthropic/"))


def _mark(messages: list[Json]) -> None:
    """Marks the system prompt and the newest two messages of the user or a tool.

    Replaces the marked messages: the originals are cached for the next request.
    """
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
            messages.append({"role": "user", "content": _content(user_parts(turn, sees=sees))})
            return
        reply = _reply(turn)
        if is_from(turn, provider=provider, model=model):
            reply |= _thoughts(turn, dialect)
        messages += [reply, *_results(turn, sees=sees)]

    return first + encode_incrementally(
        request, ("openai", provider, model, sees, dialect), add_turn
    )


def _thoughts(turn: AssistantTurn, dialect: Dialect) -> Json:
    """Returns the reasoning that the provider requires back."""
    if dialect.returns_details and (details := details_of(turn.parts)):
        return {"reasoning_details": details}
    if dialect.returns_reasoning and turn.calls:
        thought = "".join(part.thinking for part in turn.parts if isinstance(part, Reasoning))
        return {"reasoning_content": thought} if thought else {}
    return {}


def _content(items: list[ModelContent]) -> str | list[Json]:
    """Returns a plain string if possible: some compatible servers accept nothing else."""
    if all(isinstance(item, str) for item in items):
        return "\n\n".join(item for item in items if isinstance(item, str))
    return [
        _image(item) if isinstance(item, Image) else {"type": "text", "text": item}
        for item in items
    ]


def _image(image: Image) -> Json:
    detail = {"detail": image.detail} if image.detail in ("low", "high", "auto") else {}
    return {"type": "image_url", "image_url": {"url": image.address, **detail}}


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
    """Returns the results; images follow in a user message, as tool messages are text only."""
    messages: list[Json] = []
    images: list[Json] = []
    for result in turn.results:
        text, image = result_parts(result, sees=sees)
        messages.append({"role": "tool", "tool_call_id": result.tool_call_id, "content": text})
        if image is not None:
            images.append({"type": "text", "text": f"The image that {result.name} returned:"})
            images.append(_image(image))
    if images:
        messages.append({"role": "user", "content": images})
    return messages


class OpenAIWire(HttpWire):
    def __init__(self, settings: ProviderSettings, **options: Unpack[WireOptions]) -> None:
        super().__init__(settings, **options)
        self._dialect = dialect_of(settings)
        key = settings.api_key.strip()
        is_azures = settings.kind == "azure" and key and not key.startswith("Bearer ")
        self._headers = request_headers(settings, {"api-key": key} if is_azures else bearer(key))
        self._url("")  # reports an unusable address at once

    def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        settings, model = self._settings, request.model.id
        url = self._url(model)
        body = encode(
            request, provider=settings.id, dialect=self._dialect, extra_body=settings.extra_body
        )
        return self._request(model, url, self._headers, dump(body), OpenAIDecoder)

    def _url(self, model: str) -> str:
        base_url = self._settings.base_url
        if self._settings.kind != "azure":
            return openai_url(base_url)
        return azure_url(base_url, model, self._env.get("AZURE_OPENAI_API_VERSION", ""))
