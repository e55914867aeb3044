"""What a run has in progress: the model's stream, its calls. Each is a task with a name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

logger = logging.getLogger(__name__)


class Work:
    def __init__(self, run_key: int) -> None:
        self._run_key = run_key
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(
        self, name: str, work: Coroutine[Any, Any, None], *, on_broken: Callable[[str], None]
    ) -> None:
        """``on_broken`` gets the name of work that failed by a mistake of ours.

        Only the task keeps it: a run that were held by its own work would stay in memory, with
        its conversation, until a rare full collection (40 prompts with a picture kept 8 GB).
        """
        task = asyncio.create_task(work, name=f"run-{self._run_key}-{name}")
        self._tasks[name] = task
        task.add_done_callback(partial(self._ended, on_broken))

    async def abort(self) -> None:
        """Closes the model's stream and ends running tools; returns when they are gone."""
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
        logger.error("a step of a run broke", exc_info=error)
        for name in names:
            on_broken(name)
