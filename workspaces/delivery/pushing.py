"""Writes bytes to a stream without awaiting ASGI's ``send``.

Each stream has a task that awaits ``send``; waking hundreds of them is most of the cost of a delta.
A server that offers this extension takes bytes of a response that has begun at once and without
awaiting, or returns that it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

PUSH = "crush.push"

Push: TypeAlias = Callable[[bytes], bool]


def push_of(scope: Mapping[str, Any]) -> Push:
    """What the server offers for this response; where it offers nothing, nothing is taken."""
    extension = (scope.get("extensions") or {}).get(PUSH)
    return _take_nothing if extension is None else extension["push"]


def _take_nothing(_body: bytes) -> bool:
    return False
