"""The events of OpenAI's responses API as model events.

Pure: one decoder a reply, fed with the data of each event. Items of a kind we do
not know are passed over; anything that is no event at all is a ``BrokenStream``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.llm.call_ids import LONGEST, MOST_CALLS, new_call_id, usable_call_id
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
from agents.llm.reasoning_signatures import LONGEST_SEAL, RESPONSES, sealed
from workspaces.events.parts import FinishReason

Json = dict[str, Any]

REASONS = {
    "max_output_tokens": FinishReason.MAX_TOKENS,
    "max_tokens": FinishReason.MAX_TOKENS,
    "content_filter": FinishReason.CONTENT_FILTER,
}


@dataclass(slots=True)
class _Call:
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
        self._calls: dict[int, _Call] = {}  # by the item's place in the output
        self._summaries: dict[int, int] = {}  # how many parts of a thought have begun
        self._refused = False
        self.stopped = False

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Raises ``BrokenStream``, or the error that the provider put into its stream."""
        if self.stopped or data[:6] == b"[DONE]":
            return []
        event = parse_object(data)
        if event is None:
            raise BrokenStream("The provider sent something that is not a JSON object.")
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
        """The connection has ended: in order only after the last event."""
        if not self.stopped:
            raise BrokenStream("The provider ended its reply without saying that it is complete.")
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
                # Once flat, now below ``error``: both are sent.
                raise self._error_for(event.get("error") or _without_type(event))
            case _:
                return []  # what is in progress, and whatever is invented next

    def _added(self, event: Json) -> list[ModelEvent]:
        item = event.get("item")
        if not isinstance(item, dict) or item.get("type") != "function_call":
            return []
        taken = {call.id for call in self._calls.values()}
        said = text_or_empty(item.get("call_id"))
        call = _Call(usable_call_id(said, taken, self._make_id))
        self._calls[_index(event)] = call
        name = text_or_empty(item.get("name"))[:LONGEST] or "unknown"
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
            if len(encrypted) > LONGEST_SEAL or len(self._summaries) > MOST_CALLS:
                raise BrokenStream("The provider sent reasoning that is too large.")
            return [ReasoningSigned(sealed(RESPONSES, encrypted))] if encrypted else []
        if item.get("type") != "function_call":
            return []
        events: list[ModelEvent] = []
        if _index(event) not in self._calls:
            events += self._added(event)  # a server that tells an item only when it is done
        call = self._calls[_index(event)]
        given = text_or_empty(item.get("arguments"))
        if given and not call.streamed:
            events.append(ToolInputDelta(call.id, given))
        # Cut off in the middle of its input, it is told as done all the same.
        if item.get("status") != "incomplete":
            call.finished = True
            events.append(ToolCallFinished(call.id))
        return events

    def _stop(self, response: object) -> list[ModelEvent]:
        self.stopped = True
        told = response if isinstance(response, dict) else {}
        details = told.get("incomplete_details")
        cause = details.get("reason") if isinstance(details, dict) else ""
        reason = REASONS.get(text_or_empty(cause), FinishReason.END_TURN)
        if told.get("status") == "incomplete" and not cause:
            reason = FinishReason.UNKNOWN
        if self._refused and reason is FinishReason.END_TURN:
            reason = FinishReason.CONTENT_FILTER
        elif self._calls and reason in (FinishReason.END_TURN, FinishReason.UNKNOWN):
            reason = FinishReason.TOOL_USE
        open_calls = [] if reason is FinishReason.MAX_TOKENS else self._calls.values()
        closing = [ToolCallFinished(call.id) for call in open_calls if not call.finished]
        return [*closing, Stopped(reason, _usage(told.get("usage")))]


def _text(event: Json) -> list[ModelEvent]:
    text = event.get("delta")
    return [TextDelta(text)] if text and isinstance(text, str) else []


def _index(event: Json) -> int:
    index = event.get("output_index")
    return index if isinstance(index, int) else 0


def _without_type(event: Json) -> Json:
    """The ``type`` of a flat error is the event's: only ``code`` says what happened."""
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
