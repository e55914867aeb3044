"""The wire to OpenAI's chat completions and to servers that are compatible.

Azure speaks the same, at an address of its own and with the key in another header.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from agents.config.settings import ProviderSettings
from agents.llm.addresses import azure_url, is_openai, openai_url
from agents.llm.content_parts import Image, Told, result_parts, user_parts
from agents.llm.contract import SILENCE_SECONDS, ModelEvent, ModelRequest, ToolSpec
from agents.llm.encode_cache import READABLE, encode_incrementally
from agents.llm.error_answers import error_in_stream
from agents.llm.headers import bearer, request_headers
from agents.llm.history import AssistantTurn, Turn, UserTurn, system_of
from agents.llm.http_stream import Post, stream_events
from agents.llm.json_text import dump
from agents.llm.proxies import proxy_for
from agents.llm.reasoning_signatures import is_from
from agents.llm.wires.openai_decode import OpenAIDecoder
from agents.llm.wires.reasoning_details import details_of
from workspaces.log.parts import Reasoning, Text


@dataclass(frozen=True, slots=True)
class Dialect:
    native: bool = False  # knows OpenAI's newer names
    returns_reasoning: bool = False  # wants ``reasoning_content`` beside the calls it led to
    returns_details: bool = False  # wants ``reasoning_details`` back as they came
    cache_marks: bool = False  # passes Anthropic's marks on
    reasoning_switch: bool = False  # ``reasoning: {enabled, effort}`` instead of one word
    parsed_reasoning: bool = False  # must be asked to keep thoughts out of the words


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
        text, image = result_parts(result, sees=sees)
        messages.append({"role": "tool", "tool_call_id": result.tool_call_id, "content": text})
        if image is not None:
            images.append({"type": "text", "text": f"The image that {result.name} returned:"})
            images.append(_image(image))
    if images:
        messages.append({"role": "user", "content": images})
    return messages


class OpenAIWire:
    def __init__(
        self,
        settings: ProviderSettings,
        *,
        env: Mapping[str, str] | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._settings = settings
        self._dialect = dialect_of(settings)
        self._env = env or {}
        self._silence_seconds = silence_seconds
        key = settings.api_key.strip()
        is_azures = settings.kind == "azure" and key and not key.startswith("Bearer ")
        self._headers = request_headers(settings, {"api-key": key} if is_azures else bearer(key))
        self._url("")  # an address that cannot be used is told at once

    def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        settings, model = self._settings, request.model.id
        url = self._url(model)
        body = encode(
            request, provider=settings.id, dialect=self._dialect, extra_body=settings.extra_body
        )
        post = Post(
            settings=settings,
            model=model,
            url=url,
            headers=self._headers,
            body=dump(body),
            proxy=proxy_for(url, self._env),
            silence_seconds=self._silence_seconds,
        )
        return stream_events(post, OpenAIDecoder(partial(error_in_stream, settings, model)))

    def _url(self, model: str) -> str:
        base_url = self._settings.base_url
        if self._settings.kind != "azure":
            return openai_url(base_url)
        return azure_url(base_url, model, self._env.get("AZURE_OPENAI_API_VERSION", ""))
