"""Cancels tasks that may not stop, and waits for tasks and events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

logger = logging.getLogger(__name__)


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


class NamedTasks:
    """The tasks of one piece of work, each with a name."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(
        self, name: str, work: Coroutine[Any, Any, None], *, on_broken: Callable[[str], None]
    ) -> None:
        """Starts a task. ``on_broken`` gets its name if it fails with an unexpected exception.

        Only the task refers to ``on_broken``: a reference cycle would keep a run in memory, with
        its conversation, until a rare full collection (40 prompts with a picture kept 8 GB).
        """
        task = asyncio.create_task(work, name=f"{self._prefix}-{name}")
        self._tasks[name] = task
        task.add_done_callback(partial(self._ended, on_broken))

    async def abort(self) -> None:
        """Cancels all tasks; returns when they have ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, on_broken: Callable[[str], None], task: asyncio.Task[None]) -> None:
        names = [name for name, other in self._tasks.items() if other is task]
        for name in names:
            del self._tasks[name]
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.error("the task %s broke", task.get_name(), exc_info=error)
        for name in names:
            on_broken(name)
