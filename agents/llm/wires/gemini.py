"""The wire to Gemini's own API."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Unpack

import orjson

from agents.config.settings import ProviderSettings
from agents.llm.content_parts import Image, ModelContent, result_parts, user_parts
from agents.llm.contract import (
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
from agents.llm.errors import BrokenStream, ModelError
from agents.llm.history import AssistantTurn, Turn, UserTurn, system_of
from agents.llm.http_request import gemini_url, request_headers
from agents.llm.http_stream import HttpWire, WireOptions
from agents.llm.json_text import count_or_zero, dump, parse_object, text_or_empty
from agents.llm.reasoning_signatures import GEMINI, LONGEST_SEAL, is_from, sealed, unsealed
from agents.llm.wires.decoding import (
    finish_reason,
    incomplete_reply,
    new_call_id,
    not_an_object,
    served_model,
    tool_name,
    usable_call_id,
)
from workspaces.log.parts import FinishReason, Reasoning, Text, ToolCall

Json = dict[str, Any]

ON_CALL = "call:"  # precedes the signature of a call; without it, the signature belongs to text
# The value that Google documents for calls of other models.
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
    options: Json = {"maxOutputTokens": request.max_tokens}
    if request.temperature is not None:
        options["temperature"] = request.temperature
    if request.top_p is not None:
        options["topP"] = request.top_p
    if request.model.can_reason:
        options["thinkingConfig"] = _thinking(request)
    body["generationConfig"] = options
    if extra_body:
        body.update(extra_body)
    return body


def _version(model: str) -> int:
    match = VERSION.search(model)
    return int(match[1]) if match else 0


def _thinking(request: ModelRequest) -> Json:
    """Returns the thinking options: newer models take a level, older ones a token budget."""
    thinking: Json = {"includeThoughts": True}
    effort = request.reasoning_effort
    if _version(request.model.id) >= 3:
        if effort in LEVELS:
            thinking["thinkingLevel"] = LEVELS[effort]
    elif effort in BUDGETS:
        thinking["thinkingBudget"] = BUDGETS[effort]
    return thinking


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
            parts = [_content_json(item) for item in user_parts(turn, sees=sees)]
            if contents and contents[-1]["role"] == "user":
                contents[-1]["parts"].extend(parts)  # after the results of the last calls
            else:
                contents.append({"role": "user", "parts": parts})
            return
        is_its = is_from(turn, provider=provider, model=model)
        reply = _reply(turn, is_its=is_its, needs_signature=_version(model) >= 3)
        contents.append({"role": "model", "parts": reply})
        if turn.results:
            contents.append({"role": "user", "parts": _results(turn, sees=sees)})

    return encode_incrementally(request, ("gemini", provider, model, sees), add_turn)


def _content_json(item: ModelContent) -> Json:
    return _image(item) if isinstance(item, Image) else {"text": item}


def _image(image: Image) -> Json:
    if image.url:
        return {"fileData": {"fileUri": image.url}}
    return {"inlineData": {"mimeType": image.mime_type, "data": image.data}}


def _reply(turn: AssistantTurn, *, is_its: bool, needs_signature: bool) -> list[Json]:
    parts: list[Json] = []
    waiting = ""  # the signature of the next call
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
                item: Json = {"functionCall": call}
                # Of parallel calls, only the first has a signature.
                missing = UNSIGNED if needs_signature and not called else ""
                if signature := waiting or missing:
                    item["thoughtSignature"] = signature
                waiting, called = "", True
                parts.append(item)
    return parts


def _results(turn: AssistantTurn, *, sees: bool) -> list[Json]:
    """Returns the results, then their images: a function response holds only JSON."""
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
# The server could not parse the model's call; a retry may succeed.
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
        self._model = ""
        self.stopped = False

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Returns an event's model events. Raises ``BrokenStream``, or an error from the stream."""
        chunk = parse_object(data)
        if chunk is None:
            raise not_an_object()
        if chunk.get("error"):
            raise self._error_for(chunk["error"])
        if isinstance(usage := chunk.get("usageMetadata"), dict):
            self._usage = _usage(usage)
        self._model = self._model or served_model(chunk.get("modelVersion"))
        feedback = chunk.get("promptFeedback")
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            self._blocked = True
        candidates = chunk.get("candidates")
        if not isinstance(candidates, list) or not candidates:
            return []
        candidate = candidates[0]
        return self._candidate(candidate) if isinstance(candidate, dict) else []

    def end(self) -> list[ModelEvent]:
        """Ends the reply with its connection. Raises ``BrokenStream`` without a finish reason."""
        if self.stopped:
            return []
        self.stopped = True
        if self._blocked:
            return [Stopped(FinishReason.CONTENT_FILTER, self._usage)]
        if not self._reason:
            self.stopped = False
            raise incomplete_reply()
        if self._reason in GARBLED:
            raise BrokenStream("The model wrote a tool call that cannot be read.")
        reason = REASONS.get(self._reason, FinishReason.UNKNOWN)
        reason = finish_reason(reason, has_calls=bool(self._ids))
        return [Stopped(reason, self._usage, self._model)]

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
            ToolCallStarted(call_id, tool_name(call.get("name"))),
            ToolInputDelta(
                call_id, orjson.dumps(given if isinstance(given, dict) else {}).decode()
            ),
            ToolCallFinished(call_id),
        ]


def _usage(usage: Json) -> Usage:
    """Returns the usage: the prompt count includes cached tokens, thoughts count separately."""
    read = count_or_zero(usage.get("cachedContentTokenCount"))
    prompt_tokens = count_or_zero(usage.get("promptTokenCount"))
    return Usage(
        input=max(prompt_tokens - read, 0) + count_or_zero(usage.get("toolUsePromptTokenCount")),
        output=count_or_zero(usage.get("candidatesTokenCount"))
        + count_or_zero(usage.get("thoughtsTokenCount")),
        cache_read=read,
    )


class GeminiWire(HttpWire):
    def __init__(self, settings: ProviderSettings, **options: Unpack[WireOptions]) -> None:
        super().__init__(settings, **options)
        key = settings.api_key.strip()
        name = "Authorization" if key.startswith("Bearer ") else "x-goog-api-key"
        self._headers = request_headers(settings, {name: key} if key else {})

    def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        settings, model = self._settings, request.model.id
        url = gemini_url(settings.base_url, model)
        body = encode(request, provider=settings.id, extra_body=settings.extra_body)
        return self._request(model, url, self._headers, dump(body), GeminiDecoder)
