"""The wire to Anthropic's messages API and to compatible servers.

The encoder sets the marks of the prompt cache, decides which thinking is sent back, and puts all
results of a reply into one user message.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Unpack

import orjson

from agents.config.settings import ProviderSettings
from agents.llm.content_parts import Image, ModelContent, result_parts, user_parts
from agents.llm.contract import ModelEvent, ModelRequest, ToolSpec
from agents.llm.encode_cache import READABLE, encode_incrementally, newest_reply
from agents.llm.history import AssistantTurn, Turn, UserTurn, repaired, system_of
from agents.llm.http_request import anthropic_url, request_headers
from agents.llm.http_stream import HttpWire, WireOptions
from agents.llm.json_text import dump
from agents.llm.reasoning_signatures import REDACTED, is_untagged, unsealed
from agents.llm.wires.anthropic_decode import AnthropicDecoder
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import Reasoning, Text, ToolCall, ToolResult

Json = dict[str, Any]

CACHED: Json = {"type": "ephemeral"}
LEAST_BUDGET = 1_024
BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384}
BUDGET = 8_192
EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


def encode(
    request: ModelRequest, *, provider: str = "", extra_body: Mapping[str, Any] | None = None
) -> Json:
    thinks = request.think and _may_think(request.messages, provider)
    body: Json = {"model": request.model.id, "max_tokens": request.max_tokens, "stream": True}
    thinking = _thinking(request) if thinks else None
    if thinking is not None:
        body.update(thinking)
    version = _version(request.model.id)
    # The API refuses sampling parameters with thinking, and from newer models always.
    if thinking is None and version < (4, 7):
        if request.temperature is not None:
            body["temperature"] = request.temperature
        elif request.top_p is not None:
            body["top_p"] = request.top_p
    system = system_of(request.system, request.messages)
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": CACHED}]
    if request.tools:
        # A separate mark: the tools stay cached when only the system prompt changes.
        body["tools"] = [_tool(tool) for tool in request.tools]
        body["tools"][-1]["cache_control"] = CACHED
    body["messages"] = _messages(request, provider if thinking is not None else None)
    if extra_body:
        body.update(extra_body)
        body["stream"] = True
    return body


def _tool(tool: ToolSpec) -> Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.schema),
    }


def _version(model: str) -> tuple[int, int]:
    match = VERSION.search(model)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


def _thinking(request: ModelRequest) -> Json | None:
    """Returns the thinking options: newer models choose the amount, older ones take a budget."""
    version = _version(request.model.id)
    if version >= (4, 6):
        # From 4.7 on the API omits the text of thinking unless the request contains `display`.
        shown = {"display": "summarized"} if version >= (4, 7) else {}
        options: Json = {"thinking": {"type": "adaptive", **shown}}
        if request.reasoning_effort in EFFORTS:
            options["output_config"] = {"effort": request.reasoning_effort}
        return options
    budget = min(BUDGETS.get(request.reasoning_effort, BUDGET), request.max_tokens // 2)
    if budget < LEAST_BUDGET:
        return None
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _may_think(messages: Sequence[TurnMessage], provider: str) -> bool:
    """Whether thinking is allowed: a reply with calls must come back with its thinking."""
    last = repaired(messages[newest_reply(messages) :])[-1]
    if isinstance(last, UserTurn):
        return True
    return any(
        isinstance(part, Reasoning) and _is_ours(part, last, provider) for part in last.parts
    )


def _is_ours(part: Reasoning, turn: AssistantTurn, provider: str) -> bool:
    """Whether this provider made the signature; others cannot use it."""
    is_its = is_untagged(part) or unsealed(REDACTED, part)
    return bool(is_its) and turn.provider in ("", provider)


def _messages(request: ModelRequest, provider: str | None) -> list[Json]:
    """Returns the messages. ``provider`` is ``None`` if thinking is not sent back."""
    sees = request.model.supports_attachments

    def add_turn(messages: list[Any], turn: Turn) -> None:
        if isinstance(turn, UserTurn):
            blocks = [_content_json(item) for item in user_parts(turn, sees=sees)]
            if messages and messages[-1]["role"] == "user":
                messages[-1]["content"].extend(blocks)  # after the results of the last calls
            else:
                messages.append({"role": "user", "content": blocks})
            return
        messages.append({"role": "assistant", "content": _reply(turn, provider)})
        if turn.results:
            results = [_result(result, sees=sees) for result in turn.results]
            messages.append({"role": "user", "content": results})

    messages = encode_incrementally(request, ("anthropic", provider, sees), add_turn)
    # The newest two: the last request wrote the cache up to one, the other extends it.
    newest = range(len(messages) - 1, max(len(messages) - READABLE, 0) - 1, -1)
    for index in [index for index in newest if messages[index]["role"] == "user"][:2]:
        message = messages[index]
        *before, last = message["content"]
        # Copies: the original is cached for the next request.
        messages[index] = {**message, "content": [*before, {**last, "cache_control": CACHED}]}
    return messages


def _content_json(item: ModelContent) -> Json:
    return _image(item) if isinstance(item, Image) else {"type": "text", "text": item}


def _image(image: Image) -> Json:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    source = {"type": "base64", "media_type": image.mime_type, "data": image.data}
    return {"type": "image", "source": source}


def _reply(turn: AssistantTurn, provider: str | None) -> list[Json]:
    blocks: list[Json] = []
    for part in turn.parts:
        match part:
            case Text():
                blocks.append({"type": "text", "text": part.text})
            case ToolCall():
                given = orjson.loads(part.input)
                blocks.append(
                    {"type": "tool_use", "id": part.id, "name": part.name, "input": given}
                )
            case Reasoning():
                if provider is not None and _is_ours(part, turn, provider):
                    blocks.append(_thought(part))
    # A cancelled reply may end in thinking; the API requires text or a call at the end,
    # and no trailing white space.
    while blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        blocks.pop()
    if blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()
    return blocks


def _thought(part: Reasoning) -> Json:
    if data := unsealed(REDACTED, part):
        return {"type": "redacted_thinking", "data": data}
    return {"type": "thinking", "thinking": part.thinking, "signature": part.signature}


def _result(result: ToolResult, *, sees: bool) -> Json:
    text, image = result_parts(result, sees=sees)
    content: list[Json] = [{"type": "text", "text": text}]
    if image is not None:
        content.append(_image(image))
    block: Json = {"type": "tool_result", "tool_use_id": result.tool_call_id, "content": content}
    if result.is_error:
        block["is_error"] = True
    return block


BEDROCK = "bedrock-2023-05-31"
VERTEX = "vertex-2023-10-16"


def cloud_body(
    request: ModelRequest, version: str, *, provider: str, extra_body: Mapping[str, Any]
) -> dict[str, Any]:
    body = encode(request, provider=provider, extra_body=extra_body)
    del body["model"]
    if version == BEDROCK:
        del body["stream"]  # the URL implies it
    return {"anthropic_version": version, **body}


API_VERSION = "2023-06-01"


class AnthropicWire(HttpWire):
    def __init__(self, settings: ProviderSettings, **options: Unpack[WireOptions]) -> None:
        super().__init__(settings, **options)
        self._url = anthropic_url(settings.base_url)
        key = settings.api_key.strip()
        own = {"anthropic-version": API_VERSION}
        if key:
            own["Authorization" if key.startswith("Bearer ") else "x-api-key"] = key
        self._headers = request_headers(settings, own)

    def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        settings, model = self._settings, request.model.id
        body = encode(request, provider=settings.id, extra_body=settings.extra_body)
        return self._request(model, self._url, self._headers, dump(body), AnthropicDecoder)
