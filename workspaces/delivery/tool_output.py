"""Passes on what the running tools of this process have printed so far.

The sender does not know the listeners, and sending costs little when there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from workspaces.log.types import Output

Listener: TypeAlias = Callable[[str, Output], None]

_listeners: list[Listener] = []


def tell_output(workspace_id: str, output: Output) -> None:
    """In the event loop. May be lost; what ends tells everything once more."""
    for listener in _listeners:
        listener(workspace_id, output)


def listen_to_output(listener: Listener) -> None:
    _listeners.append(listener)


def stop_listening_to_output(listener: Listener) -> None:
    if listener in _listeners:
        _listeners.remove(listener)


def ended_by(message: Mapping[str, Any], keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of these messages' calls, those whose end this message tells."""
    if message["role"] not in {"tool", "user"}:
        return []
    results = [part["data"] for part in message["parts"] if part["type"] == "tool_result"]
    calls = {result["tool_call_id"] for result in results}
    return [key for key in keys if key[1] in calls or key == (message["id"], "")]
