"""An executor that starts in the background: assignments that come early wait for it."""

from __future__ import annotations

import asyncio
import logging

from agents.fleet.child.executor import Executor, ExecutorFailed
from agents.fleet.child.run_context import Desk
from agents.fleet.wire import Terminal

logger = logging.getLogger(__name__)


class Starting:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._started: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._started = asyncio.create_task(self._start(), name="executor")

    async def start(self) -> None:
        if self._started is None:
            self.begin()

    async def run(self, desk: Desk) -> Terminal:
        if self._started is None:
            raise ExecutorFailed("The child has not been started.")
        # Shielded: it goes on when the run that waits for it is cancelled.
        await desk.unless_cancelled(asyncio.shield(self._started))
        return await self._executor.run(desk)

    async def stop(self) -> None:
        if self._started is not None:
            # To its end: half a start cannot be undone.
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
