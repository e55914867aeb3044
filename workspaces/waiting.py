"""Waiting for an ``asyncio.Event`` with a limit, without losing a cancellation.

``asyncio.wait_for`` on Python 3.11 returns normally when the event is set and the task is
cancelled in the same tick: the cancellation is lost, and a task that loops forever never
ends. ``asyncio.timeout`` does not have that fault. The linter bans ``wait_for``.
"""

from __future__ import annotations

import asyncio


async def wait_until_set(event: asyncio.Event, *, seconds: float | None) -> bool:
    """Returns whether the event was set within ``seconds``. ``None`` waits without a limit."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
