"""A model request as the body of Anthropic's messages API.

Pure. Owns the marks for the prompt cache, which thinking may be sent back, and
the rule that all results of a reply stand in one user message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from agents.llm.content_parts import Image, Told, result_parts, user_parts
from agents.llm.contract import ModelRequest, ToolSpec
from agents.llm.encode_cache import READABLE, encode_incrementally, newest_reply
from agents.llm.history import AssistantTurn, Turn, UserTurn, repaired, system_of
from agents.llm.reasoning_signatures import REDACTED, is_untagged, unsealed
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
    # Beside thinking, and for newer models always, sampling is not to be set.
    if thinking is None and version < (4, 7):
        if request.temperature is not None:
            body["temperature"] = request.temperature
        elif request.top_p is not None:
            body["top_p"] = request.top_p
    system = system_of(request.system, request.messages)
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": CACHED}]
    if request.tools:
        # A mark of their own: the tools stay cached when only the system prompt changes.
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
    """Newer models decide by themselves how much they think, older ones take a budget."""
    version = _version(request.model.id)
    if version >= (4, 6):
        # From 4.7 on the words of thinking are left out unless they are asked for.
        shown = {"display": "summarized"} if version >= (4, 7) else {}
        asked: Json = {"thinking": {"type": "adaptive", **shown}}
        if request.reasoning_effort in EFFORTS:
            asked["output_config"] = {"effort": request.reasoning_effort}
        return asked
    budget = min(BUDGETS.get(request.reasoning_effort, BUDGET), request.max_tokens // 2)
    if budget < LEAST_BUDGET:
        return None
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _may_think(messages: Sequence[TurnMessage], provider: str) -> bool:
    """While calls are being answered, the reply that made them must hold its thinking."""
    last = repaired(messages[newest_reply(messages) :])[-1]
    if isinstance(last, UserTurn):
        return True
    return any(
        isinstance(part, Reasoning) and _is_ours(part, last, provider) for part in last.parts
    )


def _is_ours(part: Reasoning, turn: AssistantTurn, provider: str) -> bool:
    """A signature is worth nothing to another provider than the one that made it."""
    is_its = is_untagged(part) or unsealed(REDACTED, part)
    return bool(is_its) and turn.provider in ("", provider)


def _messages(request: ModelRequest, provider: str | None) -> list[Json]:
    """``provider`` is ``None`` where thinking is not to be sent back."""
    sees = request.model.supports_attachments

    def add_turn(messages: list[Any], turn: Turn) -> None:
        if isinstance(turn, UserTurn):
            blocks = [_told(told) for told in user_parts(turn, sees=sees)]
            if messages and messages[-1]["role"] == "user":
                messages[-1]["content"].extend(blocks)  # behind the results of the last calls
            else:
                messages.append({"role": "user", "content": blocks})
            return
        messages.append({"role": "assistant", "content": _reply(turn, provider)})
        if turn.results:
            results = [_result(result, sees=sees) for result in turn.results]
            messages.append({"role": "user", "content": results})

    messages = encode_incrementally(request, ("anthropic", provider, sees), add_turn)
    # The newest two: one is what the last request has written, the other extends it.
    newest = range(len(messages) - 1, max(len(messages) - READABLE, 0) - 1, -1)
    for index in [index for index in newest if messages[index]["role"] == "user"][:2]:
        message = messages[index]
        *before, last = message["content"]
        # What is kept for the next request stays as it is.
        messages[index] = {**message, "content": [*before, {**last, "cache_control": CACHED}]}
    return messages


def _told(told: Told) -> Json:
    return _image(told) if isinstance(told, Image) else {"type": "text", "text": told}


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
    # A cancelled reply may end in a thought; the API wants words or a call there,
    # and no white space at the end of the words.
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
        del body["stream"]  # the address says it
    return {"anthropic_version": version, **body}
