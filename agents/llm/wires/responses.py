"""The wire to OpenAI's responses API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

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
from agents.llm.http_request import bearer, request_headers, responses_url
from agents.llm.http_stream import HttpWire, WireOptions
from agents.llm.json_text import count_or_zero, dump, parse_object, text_or_empty
from agents.llm.reasoning_signatures import LONGEST_SEAL, RESPONSES, is_from, sealed, unsealed
from agents.llm.wires.decoding import (
    CALLS_LIMIT,
    finish_reason,
    incomplete_reply,
    new_call_id,
    not_an_object,
    served_model,
    tool_name,
    usable_call_id,
)
from workspaces.log.parts import FinishReason, Reasoning, Text, ToolCall, ToolResult

Json = dict[str, Any]

LEAST_TOKENS = 16  # the API refuses fewer


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
        # These models refuse sampling parameters; others refuse to encrypt their reasoning.
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
        "strict": False,  # strict schemas have no optional arguments
    }


def _items(request: ModelRequest, provider: str) -> list[Json]:
    model = request.model
    sees = model.supports_attachments

    def add_turn(items: list[Any], turn: Turn) -> None:
        if isinstance(turn, UserTurn):
            content = [_content_json(item) for item in user_parts(turn, sees=sees)]
            items.append({"type": "message", "role": "user", "content": content})
            return
        is_its = is_from(turn, provider=provider, model=model.id)
        items.extend(_reply(turn, keeps_reasoning=is_its and model.can_reason))
        items.extend(_result(result, sees=sees) for result in turn.results)

    key = ("responses", provider, model.id, sees, model.can_reason)
    return encode_incrementally(request, key, add_turn)


def _content_json(item: ModelContent) -> Json:
    if isinstance(item, str):
        return {"type": "input_text", "text": item}
    return _image(item)


def _image(image: Image) -> Json:
    detail = image.detail if image.detail in ("low", "high") else "auto"
    return {"type": "input_image", "image_url": image.address, "detail": detail}


def _reply(turn: AssistantTurn, *, keeps_reasoning: bool) -> list[Json]:
    items: list[Json] = []
    for part in turn.parts:
        match part:
            case Text():
                text = {"type": "output_text", "text": part.text}
                items.append({"type": "message", "role": "assistant", "content": [text]})
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
    # A cancelled reply may end in reasoning, which the API refuses without a following item.
    while items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _thought(part: Reasoning, encrypted: str) -> Json:
    summary = [{"type": "summary_text", "text": part.thinking}] if part.thinking else []
    return {"type": "reasoning", "summary": summary, "encrypted_content": encrypted}


def _result(result: ToolResult, *, sees: bool) -> Json:
    text, image = result_parts(result, sees=sees)
    output: str | list[Json] = text
    if image is not None:
        output = [{"type": "input_text", "text": text}, _image(image)]
    return {"type": "function_call_output", "call_id": result.tool_call_id, "output": output}


REASONS = {
    "max_output_tokens": FinishReason.MAX_TOKENS,
    "max_tokens": FinishReason.MAX_TOKENS,
    "content_filter": FinishReason.CONTENT_FILTER,
}


@dataclass(slots=True)
class _ResponsesCall:
    id: str
    streamed: bool = False
    finished: bool = False


class ResponsesDecoder:
    def __init__(
        self,
        error_for: Callable[[object], ModelError] = lambda _: BrokenStream(),
        make_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._error_for = error_for
        self._make_id = make_id
        self._calls: dict[int, _ResponsesCall] = {}  # by the item's index in the output
        self._summaries: dict[int, int] = {}  # the number of started parts of each reasoning item
        self._refused = False
        self.stopped = False

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Returns an event's model events. Raises ``BrokenStream``, or an error from the stream."""
        if self.stopped or data[:6] == b"[DONE]":
            return []
        event = parse_object(data)
        if event is None:
            raise not_an_object()
        match event.get("type"):
            case "response.output_text.delta":
                return _text(event)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                text = text_or_empty(event.get("delta"))
                return [ReasoningDelta(text)] if text else []
            case "response.function_call_arguments.delta":
                return self._input(event)
            case "response.output_item.added":
                return self._added(event)
            case "response.output_item.done":
                return self._done(event)
            case _:
                return self._rare(event)

    def end(self) -> list[ModelEvent]:
        """Ends the reply with its connection. Raises ``BrokenStream`` before the last event."""
        if not self.stopped:
            raise incomplete_reply()
        return []

    def _rare(self, event: Json) -> list[ModelEvent]:
        match event.get("type"):
            case "response.refusal.delta":
                self._refused = True
                return _text(event)
            case "response.reasoning_summary_part.added":
                begun = self._summaries.get(_index(event), 0)
                self._summaries[_index(event)] = begun + 1
                return [ReasoningDelta("\n\n")] if begun else []
            case "response.completed" | "response.incomplete":
                return self._stop(event.get("response"))
            case "response.failed":
                response = event.get("response")
                raise self._error_for(response.get("error") if isinstance(response, dict) else None)
            case "error":
                # Servers send both forms: the older flat one, and the newer one below ``error``.
                raise self._error_for(event.get("error") or _without_type(event))
            case _:
                return []  # progress events, and events of later versions

    def _added(self, event: Json) -> list[ModelEvent]:
        item = event.get("item")
        if not isinstance(item, dict) or item.get("type") != "function_call":
            return []
        taken = {call.id for call in self._calls.values()}
        server_id = text_or_empty(item.get("call_id"))
        call = _ResponsesCall(usable_call_id(server_id, taken, self._make_id))
        self._calls[_index(event)] = call
        name = tool_name(item.get("name"))
        return [ToolCallStarted(call.id, name)]

    def _input(self, event: Json) -> list[ModelEvent]:
        call, text = self._calls.get(_index(event)), text_or_empty(event.get("delta"))
        if call is None or not text:
            return []
        call.streamed = True
        return [ToolInputDelta(call.id, text)]

    def _done(self, event: Json) -> list[ModelEvent]:
        item = event.get("item")
        if not isinstance(item, dict):
            return []
        if item.get("type") == "reasoning":
            encrypted = text_or_empty(item.get("encrypted_content"))
            if len(encrypted) > LONGEST_SEAL or len(self._summaries) > CALLS_LIMIT:
                raise BrokenStream("The provider sent reasoning that is too large.")
            return [ReasoningSigned(sealed(RESPONSES, encrypted))] if encrypted else []
        if item.get("type") != "function_call":
            return []
        events: list[ModelEvent] = []
        if _index(event) not in self._calls:
            events += self._added(event)  # for servers that send an item only when it is done
        call = self._calls[_index(event)]
        given = text_or_empty(item.get("arguments"))
        if given and not call.streamed:
            events.append(ToolInputDelta(call.id, given))
        # A call whose input was cut off is also reported as done.
        if item.get("status") != "incomplete":
            call.finished = True
            events.append(ToolCallFinished(call.id))
        return events

    def _stop(self, response: object) -> list[ModelEvent]:
        self.stopped = True
        final = response if isinstance(response, dict) else {}
        details = final.get("incomplete_details")
        cause = details.get("reason") if isinstance(details, dict) else ""
        reason = REASONS.get(text_or_empty(cause), FinishReason.END_TURN)
        if final.get("status") == "incomplete" and not cause:
            reason = FinishReason.UNKNOWN
        if self._refused and reason is FinishReason.END_TURN:
            reason = FinishReason.CONTENT_FILTER
        reason = finish_reason(reason, has_calls=bool(self._calls))
        open_calls = [] if reason is FinishReason.MAX_TOKENS else self._calls.values()
        closing = [ToolCallFinished(call.id) for call in open_calls if not call.finished]
        model = served_model(final.get("model"))
        return [*closing, Stopped(reason, _usage(final.get("usage")), model)]


def _text(event: Json) -> list[ModelEvent]:
    text = event.get("delta")
    return [TextDelta(text)] if text and isinstance(text, str) else []


def _index(event: Json) -> int:
    index = event.get("output_index")
    return index if isinstance(index, int) else 0


def _without_type(event: Json) -> Json:
    """Removes the event's ``type`` from a flat error: only ``code`` identifies the error."""
    return {name: value for name, value in event.items() if name != "type"}


def _usage(usage: object) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    raw = usage.get("input_tokens_details")
    details = raw if isinstance(raw, dict) else {}
    read = count_or_zero(details.get("cached_tokens"))
    written = count_or_zero(details.get("cache_write_tokens"))
    return Usage(
        input=max(count_or_zero(usage.get("input_tokens")) - read - written, 0),
        output=count_or_zero(usage.get("output_tokens")),
        cache_read=read,
        cache_write=written,
    )


class ResponsesWire(HttpWire):
    def __init__(self, settings: ProviderSettings, **options: Unpack[WireOptions]) -> None:
        super().__init__(settings, **options)
        self._url = responses_url(settings.base_url)
        self._headers = request_headers(settings, bearer(settings.api_key))

    def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        settings, model = self._settings, request.model.id
        body = encode(request, provider=settings.id, extra_body=settings.extra_body)
        return self._request(model, self._url, self._headers, dump(body), ResponsesDecoder)
