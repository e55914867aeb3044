"""Cancels tasks that may not stop, and waits for tasks and events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancel_within(tasks: Iterable[asyncio.Task[Any]], *, seconds: float) -> None:
    """Cancels the tasks and waits for them, but no longer than ``seconds``.

    A task that handles its cancellation by waiting for a silent network is cancelled a second
    time and then abandoned.
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
    """Returns when all tasks have ended, after ``seconds``, or when ``unless`` is set."""
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


async def unless_set(
    work: asyncio.Future[Any], event: asyncio.Event, *, seconds: float | None = None
) -> bool:
    """Waits for the work, until the event is set, or at most ``seconds``.

    Returns whether the work has ended.

    It neither cancels the work nor raises its exception.
    """
    if work.done() or event.is_set():
        return work.done()
    is_set = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({work, is_set}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_set.cancel()
    return work.done()
