"""Decodes Anthropic's stream of message events into model events.

Pure: one decoder for each reply, which gets the data of each event. Ignores blocks
of unknown kinds; anything that is not an event raises ``BrokenStream``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from agents.llm.contract import (
    ModelEvent,
    ReasoningDelta,
    ReasoningSigned,
    Stopped,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
    Usage,
)
from agents.llm.errors import BrokenStream, ModelError
from agents.llm.json_text import count_or_zero, parse_object, text_or_empty
from agents.llm.reasoning_signatures import LONGEST_SEAL, REDACTED, sealed
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
from workspaces.log.parts import FinishReason

REASONS = {
    "end_turn": FinishReason.END_TURN,
    "stop_sequence": FinishReason.END_TURN,
    "max_tokens": FinishReason.MAX_TOKENS,
    "model_context_window_exceeded": FinishReason.MAX_TOKENS,
    "tool_use": FinishReason.TOOL_USE,
    "refusal": FinishReason.CONTENT_FILTER,
}


@dataclass(slots=True)
class _AnthropicCall:
    id: str
    given: str  # input from the start of the block
    streamed: bool = False


class AnthropicDecoder:
    def __init__(
        self,
        error_for: Callable[[object], ModelError] = lambda _: BrokenStream(),
        make_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._error_for = error_for
        self._make_id = make_id
        self._open: dict[int, _AnthropicCall] = {}
        self._ids: set[str] = set()
        self._signatures: dict[int, str] = {}
        self._reason = ""
        self._usage = Usage()
        self._model = ""
        self.stopped = False

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Returns an event's model events. Raises ``BrokenStream``, or an error from the stream."""
        if self.stopped:
            return []
        event = parse_object(data)
        if event is None:
            raise not_an_object()
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event)
            case "content_block_start":
                return self._start(event)
            case "content_block_stop":
                return self._close(_index(event))
            case "message_start":
                if isinstance(message := event.get("message"), dict):
                    self._model = served_model(message.get("model"))
                    self._count(message.get("usage"))
            case "message_delta":
                delta = event.get("delta")
                if isinstance(delta, dict):
                    self._reason = text_or_empty(delta.get("stop_reason")) or self._reason
                self._count(event.get("usage"))
            case "message_stop":
                return self._stop()
            case "error":
                raise self._error_for(event.get("error"))
            case _:
                pass  # ping, and events of later versions
        return []

    def end(self) -> list[ModelEvent]:
        """Ends the reply with its connection. Raises ``BrokenStream`` without a stop reason."""
        if self.stopped:
            return []
        if not self._reason:
            raise incomplete_reply()
        return self._stop()

    def _delta(self, event: dict[str, Any]) -> list[ModelEvent]:
        delta = event.get("delta")
        if not isinstance(delta, dict):
            return []
        match delta.get("type"):
            case "text_delta":
                text = delta.get("text")
                return [TextDelta(text)] if text and isinstance(text, str) else []
            case "thinking_delta":
                text = text_or_empty(delta.get("thinking"))
                return [ReasoningDelta(text)] if text else []
            case "input_json_delta":
                text = text_or_empty(delta.get("partial_json"))
                call = self._open.get(_index(event))
                if not text or call is None:
                    return []
                call.streamed = True
                return [ToolInputDelta(call.id, text)]
            case "signature_delta":
                # Sent at the block's end: a signature may arrive in pieces.
                index, piece = _index(event), text_or_empty(delta.get("signature"))
                self._remember_signature(index, self._signatures.get(index, "") + piece)
            case _:
                pass  # citations, and deltas of later versions
        return []

    def _start(self, event: dict[str, Any]) -> list[ModelEvent]:
        block = event.get("content_block")
        if not isinstance(block, dict):
            return []
        index = _index(event)
        match block.get("type"):
            case "text":
                text = text_or_empty(block.get("text"))
                return [TextDelta(text)] if text else []
            case "thinking":
                self._remember_signature(index, text_or_empty(block.get("signature")))
                text = text_or_empty(block.get("thinking"))
                return [ReasoningDelta(text)] if text else []
            case "redacted_thinking":
                data = text_or_empty(block.get("data"))
                return [ReasoningSigned(sealed(REDACTED, data))] if data else []
            case "tool_use":
                return self._start_call(index, block)
            case _:
                pass  # a tool that the provider runs
        return []

    def _remember_signature(self, index: int, signature: str) -> None:
        if len(signature) > LONGEST_SEAL or len(self._signatures) > CALLS_LIMIT:
            raise BrokenStream("The provider sent a signature that is too large.")
        if signature:
            self._signatures[index] = signature

    def _start_call(self, index: int, block: dict[str, Any]) -> list[ModelEvent]:
        given = block.get("input")
        call = _AnthropicCall(
            usable_call_id(text_or_empty(block.get("id")), self._ids, self._make_id),
            orjson.dumps(given).decode() if given and isinstance(given, dict) else "",
        )
        self._ids.add(call.id)
        events = self._close(index)  # in case the server has not closed it
        self._open[index] = call
        name = tool_name(block.get("name"))
        return [*events, ToolCallStarted(call.id, name)]

    def _close(self, index: int) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        if signature := self._signatures.pop(index, ""):
            events.append(ReasoningSigned(signature))
        call = self._open.pop(index, None)
        if call is not None:
            if call.given and not call.streamed:
                events.append(ToolInputDelta(call.id, call.given))
            events.append(ToolCallFinished(call.id))
        return events

    def _count(self, usage: object) -> None:
        """Updates the usage. Each count is a total; a missing count keeps its former value."""
        if not isinstance(usage, dict):
            return
        counted = {
            ours: count_or_zero(usage[theirs])
            for ours, theirs in (
                ("input", "input_tokens"),
                ("output", "output_tokens"),
                ("cache_read", "cache_read_input_tokens"),
                ("cache_write", "cache_creation_input_tokens"),
            )
            if usage.get(theirs) is not None
        }
        self._usage = replace(self._usage, **counted)

    def _stop(self) -> list[ModelEvent]:
        self.stopped = True
        reason = REASONS.get(self._reason, FinishReason.UNKNOWN)
        events: list[ModelEvent] = []
        if reason is FinishReason.MAX_TOKENS:
            self._open.clear()  # the input of a call that is still open is incomplete
        for index in [*self._open, *self._signatures]:
            events.extend(self._close(index))
        reason = finish_reason(reason, has_calls=bool(self._ids))
        return [*events, Stopped(reason, self._usage, self._model)]


def _index(event: dict[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0
