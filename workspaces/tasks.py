"""Ending tasks that may refuse to end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancel_within(tasks: Iterable[asyncio.Task[Any]], *, seconds: float) -> None:
    """Cancels the tasks and waits for them, but no longer than so many seconds.

    A task that spends its cancellation on a network that does not answer is cancelled a
    second time and left behind.
    """
    left = set(tasks)
    for _ in range(2):
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=seconds / 2)


async def wait_for_all(
    tasks: Iterable[asyncio.Task[Any]], *, seconds: float, unless: asyncio.Event | None = None
) -> None:
    """Returns when all have ended, after so many seconds, or as soon as ``unless`` is set."""
    left = set(tasks)
    if not left:
        return
    all_ended = asyncio.ensure_future(asyncio.wait(left))
    waited: set[asyncio.Future[Any]] = {all_ended}
    if unless is not None:
        waited.add(asyncio.ensure_future(unless.wait()))
    try:
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in waited:
            future.cancel()


async def wait_until_set(event: asyncio.Event, *, seconds: float | None) -> bool:
    """Returns whether the event was set within ``seconds``. ``None`` waits without a limit."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
