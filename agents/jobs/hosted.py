"""One command that this process hosts, from its recording to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from agents.jobs.rows import JobRow
from agents.tools.shell.running import Running
from agents.tools.shell.watched import WatchedOutput

logger = logging.getLogger(__name__)

# Tells of new output, and of the end with its exit code. Called one after the other.
OnOutput: TypeAlias = Callable[[], Awaitable[None]]
OnEnd: TypeAlias = Callable[[int], Awaitable[None]]


@dataclass(slots=True)
class Hosted:
    row: JobRow
    running: Running
    output: WatchedOutput
    is_users: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # and its end is stored
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def workspace_id(self) -> str:
        return self.row.workspace_id

    async def follow(self, *, on_output: OnOutput, on_end: OnEnd, every_seconds: float) -> None:
        """Until it is gone and its end is told. Cancelling ends it."""
        self.output.watch(self.changed.set, every_seconds=every_seconds)
        telling = asyncio.create_task(self._tell(on_output, every_seconds))
        exit_code = 137
        try:
            exit_code = await self.running.finish()
        finally:
            self.output.unwatch()
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            try:
                await on_end(exit_code)
            finally:
                self.ended.set()

    async def _tell(self, on_output: OnOutput, every_seconds: float) -> None:
        while True:
            await self.changed.wait()
            self.changed.clear()
            try:
                await on_output()
            except Exception as error:  # noqa: BLE001  its end tells everything again
                logger.warning("a command's output was not kept: %s", type(error).__name__)
            await asyncio.sleep(every_seconds)
