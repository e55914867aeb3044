"""A way past the ASGI ``send`` for what is said many times a second.

``send`` is awaited by a task of its own for each stream, and waking hundreds of those for
each word is most of what the word costs. A server that offers this extension takes bytes
of a response that has begun at once and without awaiting, or says that it cannot.
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
