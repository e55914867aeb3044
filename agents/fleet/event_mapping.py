"""Maps a sub-agent's events to a model's events. Pure.

Of unknown programs' events, only those with a clear meaning are shown: text and reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from agents.llm.contract import (
    ModelEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
)
from agents.tools.limits import cut_middle
from workspaces.log.parts import ToolResult
from workspaces.storable import storable_json, storable_text

NAME_LIMIT = 100
PARAMS_BYTES = 64 * 1024


def to_model_event(event: Any) -> ModelEvent | None:
    if not isinstance(event, dict):
        return None
    content = event.get("content")
    if not isinstance(content, str) or not content:
        return None
    content = storable_text(content)
    match event.get("type"):
        case "token":
            return TextDelta(content)
        case "reasoning_token":
            return ReasoningDelta(content)
        case _:
            return None


def name_of(event: Any) -> str:
    """Returns the event's type, for observers of the sub-agent."""
    kind = event.get("type") if isinstance(event, dict) else None
    return storable_text(kind)[:NAME_LIMIT] if isinstance(kind, str) else ""


def words_of(body: Any, key: str, *, default: str = "", most: int = 4_000) -> str:
    """Returns a text from the untrusted body of a question."""
    value = body.get(key) if isinstance(body, dict) else None
    return storable_text(value)[:most] if isinstance(value, str) and value else default


def params_of(body: Any) -> Mapping[str, Any]:
    """Returns a question's body, to be stored and shown; replaces one that is too large."""
    written = orjson.dumps(body)
    if len(written) > PARAMS_BYTES:
        return {"body": f"{len(written):,} bytes, which are left out"}
    body = orjson.loads(storable_json(written))
    return body if isinstance(body, dict) else {"body": body}


MOST_CALLS = 200
ID_CHARS = 128
NAME_CHARS = 100
INPUT_CHARS = 20_000
RESULT_CHARS = 30_000


class RemoteToolCalls:
    """The remote tool calls of one run."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of calls without a result
        self._count = 0
        self._seen: set[str] = set()

    def begun(self, event: Any) -> Sequence[ModelEvent]:
        """Returns the call as a model's events; empty for another event, or beyond the limit."""
        call_id, name = _text(event, "tool_call_id"), _text(event, "tool_name")
        if not _is(event, "tool_start") or not 0 < len(call_id) <= ID_CHARS or not name:
            return ()
        if call_id in self._seen or self._count >= MOST_CALLS:
            return ()
        self._count += 1
        self._seen.add(call_id)
        self._names[call_id] = name[:NAME_CHARS]
        return (
            ToolCallStarted(call_id, name[:NAME_CHARS]),
            ToolInputDelta(call_id, _input(event.get("arguments"))),
            ToolCallFinished(call_id),
        )

    def ended(self, event: Any) -> ToolResult | None:
        """Returns the result of a known call, or None."""
        call_id = _text(event, "tool_call_id")
        if not _is(event, "tool_complete") or call_id not in self._names:
            return None
        result = event.get("result")
        content = _text(result, "result") if isinstance(result, dict) else str(result or "")
        failed = isinstance(result, dict) and result.get("success") is False
        name = self._names.pop(call_id)
        content = cut_middle(storable_text(content), RESULT_CHARS)
        return ToolResult(call_id, name, content, is_error=failed)


def _is(event: Any, kind: str) -> bool:
    return isinstance(event, dict) and event.get("type") == kind


def _text(value: Any, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return storable_text(found) if isinstance(found, str) else ""


def _input(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return "{}"
    written = storable_json(orjson.dumps(arguments)).decode()
    return written if len(written) <= INPUT_CHARS else "{}"
