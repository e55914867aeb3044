"""Sends the output of this process's running tools to listeners.

The sender is independent of the listeners, and sending is cheap when there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from workspaces.log.types import Output

Listener: TypeAlias = Callable[[str, Output], None]

_listeners: list[Listener] = []


def publish_output(workspace_id: str, output: Output) -> None:
    """Calls the listeners. Call it in the event loop; the tool's result repeats lost output."""
    for listener in _listeners:
        listener(workspace_id, output)


def listen_to_output(listener: Listener) -> None:
    _listeners.append(listener)


def stop_listening_to_output(listener: Listener) -> None:
    if listener in _listeners:
        _listeners.remove(listener)


def ended_by(message: Mapping[str, Any], keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the keys of the tool calls and commands that this message ends."""
    if message["role"] not in {"tool", "user"}:
        return []
    results = [part["data"] for part in message["parts"] if part["type"] == "tool_result"]
    calls = {result["tool_call_id"] for result in results}
    return [key for key in keys if key[1] in calls or key == (message["id"], "")]
