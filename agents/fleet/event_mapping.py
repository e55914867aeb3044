"""What a sub-agent's events are as a model's words. Pure.

Of the events of programs that this one does not know only those are shown whose meaning is
plain: words and thoughts.
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

NAME_LIMIT = 100
PARAMS_BYTES = 64 * 1024
_NUL = b"\\u0000"  # in JSON


def to_model_event(event: Any) -> ModelEvent | None:
    if not isinstance(event, dict):
        return None
    content = event.get("content")
    if not isinstance(content, str) or not content:
        return None
    # A NUL cannot be stored by PostgreSQL.
    content = content.replace("\x00", "\ufffd")
    match event.get("type"):
        case "token":
            return TextDelta(content)
        case "reasoning_token":
            return ReasoningDelta(content)
        case _:
            return None


def name_of(event: Any) -> str:
    """The event's type, for those who watch over the sub-agent."""
    kind = event.get("type") if isinstance(event, dict) else None
    return kind.replace("\x00", "")[:NAME_LIMIT] if isinstance(kind, str) else ""


def words_of(body: Any, key: str, *, default: str = "", most: int = 4_000) -> str:
    """A text of a question's body, which a sub-agent made as it liked."""
    value = body.get(key) if isinstance(body, dict) else None
    return value.replace("\x00", "\ufffd")[:most] if isinstance(value, str) and value else default


def params_of(body: Any) -> Mapping[str, Any]:
    """The whole of a question's body, to be stored and shown with it; too much is left out."""
    written = orjson.dumps(body)
    if len(written) > PARAMS_BYTES:
        return {"body": f"{len(written):,} bytes, which are left out"}
    if _NUL in written:
        body = _without_nul(body)
    return body if isinstance(body, dict) else {"body": body}


def _without_nul(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\x00", "\ufffd")
        case dict():
            return {_without_nul(key): _without_nul(item) for key, item in value.items()}
        case list():
            return [_without_nul(item) for item in value]
        case _:
            return value


MOST_CALLS = 200
ID_CHARS = 128
NAME_CHARS = 100
INPUT_CHARS = 20_000
RESULT_CHARS = 30_000


class RemoteToolCalls:
    """Of one run."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of calls that have no result yet
        self._count = 0
        self._seen: set[str] = set()

    def begun(self, event: Any) -> Sequence[ModelEvent]:
        """The call as a model would have made it; nothing for what is no call, or one too many."""
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
        """The result of a call that was heard before."""
        call_id = _text(event, "tool_call_id")
        if not _is(event, "tool_complete") or call_id not in self._names:
            return None
        told = event.get("result")
        content = _text(told, "result") if isinstance(told, dict) else str(told or "")
        failed = isinstance(told, dict) and told.get("success") is False
        name = self._names.pop(call_id)
        content = cut_middle(content.replace("\x00", "\ufffd"), RESULT_CHARS)
        return ToolResult(call_id, name, content, is_error=failed)


def _is(event: Any, kind: str) -> bool:
    return isinstance(event, dict) and event.get("type") == kind


def _text(value: Any, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found.replace("\x00", "\ufffd") if isinstance(found, str) else ""


def _input(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return "{}"
    written = orjson.dumps(arguments).replace(b"\\u0000", b"\\ufffd").decode()
    return written if len(written) <= INPUT_CHARS else "{}"
