"""Gemini's stream of responses as model events.

Pure: one decoder a reply, fed with the data of each event. Calls come whole; a
thought signature is told before the call it came with, or behind the words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from agents.llm.call_ids import LONGEST, new_call_id, usable_call_id
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
from agents.llm.reasoning_signatures import GEMINI, LONGEST_SEAL, sealed
from agents.llm.wires.gemini_encode import ON_CALL
from workspaces.events.parts import FinishReason

Json = dict[str, Any]

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
