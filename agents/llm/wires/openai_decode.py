"""Decodes OpenAI's stream of chunks into model events.

Pure: one decoder for each reply, which gets the data of each event. Tolerates the
deviations of compatible servers (missing ids and indexes, several calls under one
index, usage in odd places); anything that is not a chunk raises ``BrokenStream``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
from agents.llm.reasoning_signatures import DETAILS, Details, sealed
from agents.llm.wires.decoding import (
    NAME_LIMIT,
    finish_reason,
    incomplete_reply,
    new_call_id,
    not_an_object,
    served_model,
    usable_call_id,
)
from workspaces.log.parts import FinishReason

REASONS = {
    "stop": FinishReason.END_TURN,
    "end_turn": FinishReason.END_TURN,
    "eos": FinishReason.END_TURN,
    "length": FinishReason.MAX_TOKENS,
    "max_tokens": FinishReason.MAX_TOKENS,
    "tool_calls": FinishReason.TOOL_USE,
    "function_call": FinishReason.TOOL_USE,
    "content_filter": FinishReason.CONTENT_FILTER,
}


@dataclass(slots=True)
class _Call:
    id: str  # our id, unique in the reply
    server_id: str
    name: str = ""
    started: bool = False
    waiting: list[str] = field(default_factory=list)  # input that arrived before the name


class OpenAIDecoder:
    def __init__(
        self,
        error_for: Callable[[object], ModelError] = lambda _: BrokenStream(),
        make_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._error_for = error_for
        self._make_id = make_id
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._reason = ""
        self._refused = False
        self._details = Details()
        self._usage = Usage()
        self._model = ""
        self.stopped = False

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Returns an event's model events. Raises ``BrokenStream``, or an error from the stream."""
        if self.stopped:
            return []
        if data[:6] == b"[DONE]":
            return self._stop()
        chunk = parse_object(data)
        if chunk is None:
            raise not_an_object()
        if chunk.get("error"):
            raise self._error_for(chunk["error"])
        self._model = self._model or served_model(chunk.get("model"))
        choices = chunk.get("choices")
        events: list[ModelEvent] = []
        if type(choices) is list and choices:
            choice = choices[0]
            if type(choice) is dict:
                self._choice(choice, events)
        if (usage := chunk.get("usage")) is not None:
            self._count(usage)
        elif isinstance(groq := chunk.get("x_groq"), dict):
            self._count(groq.get("usage"))
        return events

    def end(self) -> list[ModelEvent]:
        """Ends the reply with its connection. Raises ``BrokenStream`` without a finish reason."""
        if self.stopped:
            return []
        if not self._reason:
            raise incomplete_reply()
        return self._stop()

    def _choice(self, choice: dict[str, Any], events: list[ModelEvent]) -> None:
        delta = choice.get("delta")
        if type(delta) is dict:
            content = delta.get("content")
            if content:
                if type(content) is str:
                    events.append(TextDelta(content))
                else:
                    self._blocks(content, events)
            if len(delta) > 1 or content is None:
                self._rare(delta, events)
        if (reason := choice.get("finish_reason")) and isinstance(reason, str):
            self._reason = reason
        if (usage := choice.get("usage")) is not None:
            self._count(usage)

    def _blocks(self, content: object, events: list[ModelEvent]) -> None:
        """Reads content as a list of blocks, which Mistral sends."""
        if not isinstance(content, list):
            return
        for part in content:
            if not isinstance(part, dict):
                continue
            if part.get("type") == "thinking":
                self._thinking(part.get("thinking"), events)
            elif text := text_or_empty(part.get("text")):
                events.append(TextDelta(text))

    def _thinking(self, thinking: object, events: list[ModelEvent]) -> None:
        pieces = thinking if isinstance(thinking, list) else [{"text": thinking}]
        events += [
            ReasoningDelta(text)
            for piece in pieces
            if isinstance(piece, dict) and (text := text_or_empty(piece.get("text")))
        ]

    def _rare(self, delta: dict[str, Any], events: list[ModelEvent]) -> None:
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if reasoning and isinstance(reasoning, str):
            # Before the text of the same chunk: a model thinks first.
            events.insert(0, ReasoningDelta(reasoning))
        if (details := delta.get("reasoning_details")) is not None:
            self._details.add(details)
        if refusal := text_or_empty(delta.get("refusal")):
            self._refused = True
            events.append(TextDelta(refusal))
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            for position, raw in enumerate(calls):
                if isinstance(raw, dict):
                    self._tool(raw, position, events)

    def _tool(self, raw: dict[str, Any], position: int, events: list[ModelEvent]) -> None:
        raw_function = raw.get("function")
        function = raw_function if isinstance(raw_function, dict) else {}
        name = text_or_empty(function.get("name"))[:NAME_LIMIT]
        call = self._call(raw, position, name)
        if name and not call.started:
            call.name = name
            call.started = True
            events.append(ToolCallStarted(call.id, name))
            events.extend(ToolInputDelta(call.id, text) for text in call.waiting)
            call.waiting.clear()
        given = function.get("arguments")
        if isinstance(given, dict):
            given = orjson.dumps(given).decode()
        if given and isinstance(given, str):
            if call.started:
                events.append(ToolInputDelta(call.id, given))
            else:
                call.waiting.append(given)

    def _call(self, raw: dict[str, Any], position: int, name: str) -> _Call:
        """Returns the call of this piece; starts one if the id or the index is new."""
        server_id = text_or_empty(raw.get("id"))
        index = raw.get("index")
        if isinstance(index, bool) or not isinstance(index, int):
            index = self._index_of(server_id, position, name)
        known = self._by_index.get(index)
        # Some servers send every call as number 0, each with its own id.
        fresh = server_id and name and known is not None and known.server_id not in ("", server_id)
        if known is not None and not fresh:
            return known
        taken = {call.id for call in self._calls}
        call = _Call(usable_call_id(server_id, taken, self._make_id), server_id)
        self._calls.append(call)
        self._by_index[index] = call
        return call

    def _index_of(self, server_id: str, position: int, name: str) -> int:
        """Returns the index of a piece without one: by id, new for a name, else the newest."""
        for index, call in self._by_index.items():
            if server_id and call.server_id == server_id:
                return index
        if name or server_id or not self._by_index:
            return max(self._by_index, default=-1) + 1
        return position if position in self._by_index else max(self._by_index)

    def _count(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        details = usage.get("prompt_tokens_details")
        cached = count_or_zero(details.get("cached_tokens")) if isinstance(details, dict) else 0
        cached = cached or count_or_zero(usage.get("prompt_cache_hit_tokens"))
        written = (
            count_or_zero(details.get("cache_write_tokens")) if isinstance(details, dict) else 0
        )
        prompt_tokens = count_or_zero(usage.get("prompt_tokens"))
        self._usage = Usage(
            input=max(prompt_tokens - cached - written, 0),
            output=count_or_zero(usage.get("completion_tokens")),
            cache_read=cached,
            cache_write=written,
        )

    def _stop(self) -> list[ModelEvent]:
        self.stopped = True
        events: list[ModelEvent] = []
        for call in self._calls:
            if not call.started:
                events.append(ToolCallStarted(call.id, "unknown"))
                events.extend(ToolInputDelta(call.id, text) for text in call.waiting)
        reason = REASONS.get(self._reason, FinishReason.UNKNOWN)
        if self._refused and reason is FinishReason.END_TURN:
            reason = FinishReason.CONTENT_FILTER
        reason = finish_reason(reason, has_calls=bool(self._calls))
        # When the tokens run out, the input of the last call is incomplete.
        if details := self._details.taken():
            events.append(ReasoningSigned(sealed(DETAILS, details)))
        whole = self._calls[:-1] if reason is FinishReason.MAX_TOKENS else self._calls
        events.extend(ToolCallFinished(call.id) for call in whole)
        events.append(Stopped(reason, self._usage, self._model))
        return events
