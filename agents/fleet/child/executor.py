"""The protocol of an executor, which performs assignments, and the start of one in the background."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from agents.fleet.child.run_context import RunContext
from agents.fleet.wire.frames import Terminal

logger = logging.getLogger(__name__)


class ExecutorFailed(Exception):
    """The assignment cannot be performed; the parent receives the sentence."""


class RunExecutor(Protocol):
    """Performs the assignments of a process; ``run`` is called for many at once."""

    async def start(self) -> None:
        """Starts the executor, once. May raise. The first parents may be connected already."""

    async def run(self, context: RunContext) -> Terminal:
        """Performs one assignment; ends soon after a cancel, with ``RunCancelled``.

        Otherwise ``asyncio`` cancels its task. Then too it must leave nothing running.
        """

    async def stop(self) -> None:
        """Stops everything that was started. Callable without ``start``."""


class Starting:
    """Starts an executor in the background; a run waits until it has started."""

    def __init__(self, executor: RunExecutor) -> None:
        self._executor = executor
        self._started: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._started = asyncio.create_task(self._start(), name="executor")

    async def start(self) -> None:
        if self._started is None:
            self.begin()

    async def run(self, context: RunContext) -> Terminal:
        if self._started is None:
            raise ExecutorFailed("The child has not been started.")
        # Shielded: the start continues if the run that waits for it is cancelled.
        await context.unless_cancelled(asyncio.shield(self._started))
        return await self._executor.run(context)

    async def stop(self) -> None:
        if self._started is not None:
            # Waits for the end: a partial start cannot be undone.
            await asyncio.wait({self._started})
        await self._executor.stop()

    async def _start(self) -> None:
        try:
            await self._executor.start()
        except ExecutorFailed:
            raise
        except Exception as error:
            logger.exception("the executor could not be started")
            raise ExecutorFailed("The executor could not be started.") from error
