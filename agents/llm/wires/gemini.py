"""The wire to Gemini's own API."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

import orjson

from agents.config.settings import ProviderSettings
from agents.llm.addresses import gemini_url
from agents.llm.content_parts import Image, Told, result_parts, user_parts
from agents.llm.contract import (
    SILENCE_SECONDS,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ReasoningSigned,
    Stopped,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
    ToolSpec,
    Usage,
)
from agents.llm.encode_cache import encode_incrementally
from agents.llm.error_answers import error_in_stream
from agents.llm.errors import BrokenStream, ModelError
from agents.llm.headers import request_headers
from agents.llm.history import AssistantTurn, Turn, UserTurn, system_of
from agents.llm.http_stream import Post, stream_events
from agents.llm.json_text import count_or_zero, dump, parse_object, text_or_empty
from agents.llm.proxies import proxy_for
from agents.llm.reasoning_signatures import GEMINI, LONGEST_SEAL, is_from, sealed, unsealed
from agents.llm.wires.call_ids import LONGEST, new_call_id, usable_call_id
from workspaces.log.parts import FinishReason, Reasoning, Text, ToolCall

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
            parts = [_told(told) for told in user_parts(turn, sees=sees)]
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

    return encode_incrementally(request, ("gemini", provider, model, sees), add_turn)


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
        text, image = result_parts(result, sees=sees)
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


REASONS = {
    "STOP": FinishReason.END_TURN,
    "MAX_TOKENS": FinishReason.MAX_TOKENS,
} | dict.fromkeys(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"),
    FinishReason.CONTENT_FILTER,
)
# The model wrote a call that its own server could not read: asked again, it may do better.
GARBLED = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})


class GeminiDecoder:
    def __init__(
        self,
        error_for: Callable[[object], ModelError] = lambda _: BrokenStream(),
        make_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._error_for = error_for
        self._make_id = make_id
        self._ids: set[str] = set()
        self._reason = ""
        self._blocked = False
        self._usage = Usage()
        self.stopped = False

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Raises ``BrokenStream``, or the error that the provider put into its stream."""
        chunk = parse_object(data)
        if chunk is None:
            raise BrokenStream("The provider sent something that is not a JSON object.")
        if chunk.get("error"):
            raise self._error_for(chunk["error"])
        if isinstance(usage := chunk.get("usageMetadata"), dict):
            self._usage = _usage(usage)
        feedback = chunk.get("promptFeedback")
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            self._blocked = True
        candidates = chunk.get("candidates")
        if not isinstance(candidates, list) or not candidates:
            return []
        candidate = candidates[0]
        return self._candidate(candidate) if isinstance(candidate, dict) else []

    def end(self) -> list[ModelEvent]:
        """The connection has ended: in order only after a finish reason."""
        if self.stopped:
            return []
        self.stopped = True
        if self._blocked:
            return [Stopped(FinishReason.CONTENT_FILTER, self._usage)]
        if not self._reason:
            self.stopped = False
            raise BrokenStream("The provider ended its reply without saying that it is complete.")
        if self._reason in GARBLED:
            raise BrokenStream("The model wrote a tool call that cannot be read.")
        reason = REASONS.get(self._reason, FinishReason.UNKNOWN)
        if self._ids and reason in (FinishReason.END_TURN, FinishReason.UNKNOWN):
            reason = FinishReason.TOOL_USE
        return [Stopped(reason, self._usage)]

    def _candidate(self, candidate: Json) -> list[ModelEvent]:
        self._reason = text_or_empty(candidate.get("finishReason")) or self._reason
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        events: list[ModelEvent] = []
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._part(part, events)
        return events

    def _part(self, part: Json, events: list[ModelEvent]) -> None:
        signature = text_or_empty(part.get("thoughtSignature"))
        if len(signature) > LONGEST_SEAL:
            raise BrokenStream("The provider sent a signature that is too large.")
        call = part.get("functionCall")
        if isinstance(call, dict):
            if signature:
                events.append(ReasoningSigned(sealed(GEMINI, ON_CALL + signature)))
            self._call(call, events)
            return
        if text := text_or_empty(part.get("text")):
            events.append(ReasoningDelta(text) if part.get("thought") else TextDelta(text))
        if signature:
            events.append(ReasoningSigned(sealed(GEMINI, signature)))

    def _call(self, call: Json, events: list[ModelEvent]) -> None:
        call_id = usable_call_id(text_or_empty(call.get("id")), self._ids, self._make_id)
        self._ids.add(call_id)
        given = call.get("args")
        events += [
            ToolCallStarted(call_id, text_or_empty(call.get("name"))[:LONGEST] or "unknown"),
            ToolInputDelta(
                call_id, orjson.dumps(given if isinstance(given, dict) else {}).decode()
            ),
            ToolCallFinished(call_id),
        ]


def _usage(usage: Json) -> Usage:
    """What the prompt's count holds includes the cached part; thoughts are counted apart."""
    read = count_or_zero(usage.get("cachedContentTokenCount"))
    asked = count_or_zero(usage.get("promptTokenCount"))
    return Usage(
        input=max(asked - read, 0) + count_or_zero(usage.get("toolUsePromptTokenCount")),
        output=count_or_zero(usage.get("candidatesTokenCount"))
        + count_or_zero(usage.get("thoughtsTokenCount")),
        cache_read=read,
    )


class GeminiWire:
    def __init__(
        self,
        settings: ProviderSettings,
        *,
        env: Mapping[str, str] | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._settings = settings
        self._env = env or {}
        self._silence_seconds = silence_seconds
        key = settings.api_key.strip()
        name = "Authorization" if key.startswith("Bearer ") else "x-goog-api-key"
        self._headers = request_headers(settings, {name: key} if key else {})

    def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        settings, model = self._settings, request.model.id
        url = gemini_url(settings.base_url, model)
        body = encode(request, provider=settings.id, extra_body=settings.extra_body)
        post = Post(
            settings=settings,
            model=model,
            url=url,
            headers=self._headers,
            body=dump(body),
            proxy=proxy_for(url, self._env),
            silence_seconds=self._silence_seconds,
        )
        return stream_events(post, GeminiDecoder(partial(error_in_stream, settings, model)))
