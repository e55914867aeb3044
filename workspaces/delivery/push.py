"""Writes bytes to a stream without awaiting ASGI's ``send``.

Each stream has a task that awaits ``send``; waking hundreds of them is most of the cost of a delta.
A server with this extension writes bytes of a started response, or a text message of an open
WebSocket, at once, without ``await``, or returns that it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

PUSH = "crush.push"

Push: TypeAlias = Callable[[bytes], bool]


def push_of(scope: Mapping[str, Any]) -> Push:
    """Returns the server's push function, or one that declines every chunk."""
    extension = (scope.get("extensions") or {}).get(PUSH)
    return _take_nothing if extension is None else extension["push"]


def _take_nothing(_body: bytes) -> bool:
    return False
