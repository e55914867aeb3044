"""Sends the output of this process's running tools to listeners, and keeps the newest of each.

The sender is independent of the listeners, and sending is cheap when there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from workspaces.log.types import Output

OutputKey: TypeAlias = tuple[str, str]  # the ids of the message and of the call


class OutputListener(Protocol):
    def output(self, workspace_id: str, output: Output) -> None: ...

    def end_output(self, workspace_id: str, key: OutputKey) -> None: ...


_listeners: list[OutputListener] = []


def publish_output(workspace_id: str, output: Output) -> None:
    """Calls the listeners. Call it in the event loop; the tool's result repeats lost output."""
    for listener in _listeners:
        listener.output(workspace_id, output)


def end_output(workspace_id: str, key: OutputKey) -> None:
    """Notifies that the tool has ended: there is no more output of this call."""
    for listener in _listeners:
        listener.end_output(workspace_id, key)


def listen_to_output(listener: OutputListener) -> None:
    _listeners.append(listener)


def stop_listening_to_output(listener: OutputListener) -> None:
    if listener in _listeners:
        _listeners.remove(listener)


def ended_by(message: Mapping[str, Any], keys: Iterable[OutputKey]) -> list[OutputKey]:
    """Returns the keys of the tool calls and commands that this message ends."""
    if message["role"] not in {"tool", "user"}:
        return []
    results = [part["data"] for part in message["parts"] if part["type"] == "tool_result"]
    calls = {result["tool_call_id"] for result in results}
    return [key for key in keys if key[1] in calls or key == (message["id"], "")]


class RunningOutputs:
    """The newest output of each tool call that runs in this process, for readers that come later.

    A user's command is not kept here: its message has its output.
    """

    def __init__(self) -> None:
        self._newest: dict[str, dict[OutputKey, Output]] = {}

    def keep(self, workspace_id: str, output: Output) -> None:
        if output.call_id:
            newest = self._newest.setdefault(workspace_id, {})
            newest[output.message_id, output.call_id] = output

    def end(self, workspace_id: str, key: OutputKey) -> None:
        newest = self._newest.get(workspace_id)
        if newest is not None:
            newest.pop(key, None)
            if not newest:
                del self._newest[workspace_id]

    def of(self, workspace_id: str) -> list[Output]:
        return list(self._newest.get(workspace_id, {}).values())

    def __iter__(self) -> Iterator[tuple[str, Output]]:
        for workspace_id, newest in self._newest.items():
            for output in newest.values():
                yield workspace_id, output
