"""Saves the words of every open reply a few times a second, all in one write.

One write for each reply would cost a busy process a fifth of its time. A
checkpoint that comes too late does nothing: it names the stream that it is of.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from agents.runs.open_reply import Checkpoint, save_checkpoints
from workspaces.log.errors import ShuttingDown
from workspaces.log.writer import writer

if TYPE_CHECKING:
    from agents.runs.reply import Reply

logger = logging.getLogger(__name__)

# With the write's own time, words are in their row 250 ms after they were shown.
INTERVAL_SECONDS = 0.2


class Checkpoints:
    def __init__(self) -> None:
        self._open: dict[str, Reply] = {}  # by message
        self._sizes: dict[str, tuple[int, int]] = {}  # what was saved of each
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._save_all(), name="checkpoints")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def open(self, reply: Reply) -> None:
        self._open[reply.message_id] = reply

    def close(self, reply: Reply) -> None:
        """Callable twice."""
        self._open.pop(reply.message_id, None)
        self._sizes.pop(reply.message_id, None)

    async def _save_all(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            changed = [reply for reply in self._open.values() if self._has_news(reply)]
            if not changed:
                continue
            rows = [
                Checkpoint(reply.held, reply.message_id, reply.number, reply.parts())
                for reply in changed
            ]
            try:
                await writer.write("", partial(save_checkpoints, checkpoints=rows))
            except ShuttingDown:
                return
            except Exception as error:  # noqa: BLE001  the whole message is written at its end
                logger.warning("checkpoints were not written: %s", error)

    def _has_news(self, reply: Reply) -> bool:
        size = (reply.number, reply.assembly.size)
        if self._sizes.get(reply.message_id) == size:
            return False
        self._sizes[reply.message_id] = size
        return True
