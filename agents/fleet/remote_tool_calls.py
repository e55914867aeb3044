"""A sub-agent's tool calls, as its events tell them, for those who watch its session. Pure.

They are drawn and nothing more: nobody runs them here. What is told of a call is
another program's word, so it is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from agents.llm.contract import ModelEvent, ToolCallFinished, ToolCallStarted, ToolInputDelta
from agents.tools.limits import cut_middle
from workspaces.events.parts import ToolResult

MOST_CALLS = 200
ID_CHARS = 128
NAME_CHARS = 100
INPUT_CHARS = 20_000
RESULT_CHARS = 30_000


class CallsHeard:
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
