"""The event loop that a server or a worker lives in: uvloop's.

A word is worth a read, a wake-up and a write, and most of what those cost in the
standard loop is Python of its own: uvloop halves it. Where it cannot be imported
the standard loop does the same work, only slower.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine


def run(main: Coroutine[object, object, None]) -> None:
    """Runs ``main`` to its end in a loop of its own."""
    with asyncio.Runner(loop_factory=_quickest()) as runner:
        runner.run(main)


def _quickest() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415  not on every platform
    except ImportError:
        return asyncio.SelectorEventLoop
    return uvloop.new_event_loop
