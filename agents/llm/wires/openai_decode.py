"""OpenAI's stream of chunks as model events.

Pure: one decoder a reply, fed with the data of each event. Tolerates what
compatible servers do differently (missing ids and indexes, several calls under
one index, usage in odd places); anything that is no chunk at all is a
``BrokenStream``.
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
from agents.llm.reasoning_signatures import DETAILS, sealed
from agents.llm.wires.call_ids import LONGEST, new_call_id, usable_call_id
from agents.llm.wires.reasoning_details import Details
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
    id: str  # ours: unique in the reply
    said_id: str  # the server's
    name: str = ""
    started: bool = False
    waiting: list[str] = field(default_factory=list)  # input that came before the name


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
        self.stopped = False

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Raises ``BrokenStream``, or the error that the provider put into its stream."""
        if self.stopped:
            return []
        if data[:6] == b"[DONE]":
            return self._stop()
        chunk = parse_object(data)
        if chunk is None:
            raise BrokenStream("The provider sent something that is not a JSON object.")
        if chunk.get("error"):
            raise self._error_for(chunk["error"])
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
        """The connection has ended: in order only after a finish reason."""
        if self.stopped:
            return []
        if not self._reason:
            raise BrokenStream("The provider ended its reply without saying that it is complete.")
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
        """As Mistral sends what it says."""
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
        name = text_or_empty(function.get("name"))[:LONGEST]
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
        """The call that this piece belongs to; a new one where id or index are new."""
        said_id = text_or_empty(raw.get("id"))
        index = raw.get("index")
        if isinstance(index, bool) or not isinstance(index, int):
            index = self._index_of(said_id, position, name)
        known = self._by_index.get(index)
        # Some servers send every call as number 0, each with its own id.
        fresh = said_id and name and known is not None and known.said_id not in ("", said_id)
        if known is not None and not fresh:
            return known
        taken = {call.id for call in self._calls}
        call = _Call(usable_call_id(said_id, taken, self._make_id), said_id)
        self._calls.append(call)
        self._by_index[index] = call
        return call

    def _index_of(self, said_id: str, position: int, name: str) -> int:
        """Without an index: the call of that id, a new one for a name, else the newest."""
        for index, call in self._by_index.items():
            if said_id and call.said_id == said_id:
                return index
        if name or said_id or not self._by_index:
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
        asked = count_or_zero(usage.get("prompt_tokens"))
        self._usage = Usage(
            input=max(asked - cached - written, 0),
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
        if self._calls and reason in (FinishReason.END_TURN, FinishReason.UNKNOWN):
            reason = FinishReason.TOOL_USE
        # Out of tokens, the last call was cut in the middle of its input.
        if details := self._details.taken():
            events.append(ReasoningSigned(sealed(DETAILS, details)))
        whole = self._calls[:-1] if reason is FinishReason.MAX_TOKENS else self._calls
        events.extend(ToolCallFinished(call.id) for call in whole)
        events.append(Stopped(reason, self._usage))
        return events
