"""One model reply on its way: words to the hub at once, checkpoints to the row."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from agents.actions.steps import Held, LeaseLost, checkpoint, restart_reply
from agents.llm.assembly import ReplyAssembly
from agents.llm.contract import ModelRequest, Provider, Restarted, Stopped
from agents.llm.retries import stream_with_retries
from workspaces.events.hub import Hub
from workspaces.events.live import LiveMessage
from workspaces.events.parts import Parts
from workspaces.events.types import Delta, Header
from workspaces.storage.errors import ShuttingDown
from workspaces.storage.moments import now_ms
from workspaces.storage.writer import writer

logger = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 0.25


@dataclass
class Reply:
    """The reply that a run is receiving, or has received and not yet saved."""

    held: Held
    hub: Hub
    number: int
    message: Mapping[str, Any]
    taken: frozenset[str] = frozenset()  # call ids of the run's earlier replies

    def __post_init__(self) -> None:
        self.message_id: str = self.message["id"]
        self.assembly = ReplyAssembly(taken=self.taken)
        self._saving: asyncio.Task[None] | None = None
        self._saved_at = 0.0
        self.hub.begin(self.held.workspace_id, LiveMessage(self.number, self.message))

    def parts(self) -> Parts:
        return self.assembly.parts(now=now_ms() // 1000)

    async def receive(self, provider: Provider, request: ModelRequest) -> Stopped:
        """Streams to the regular end. Raises ``ModelError``; cancelling closes the stream."""
        stream = stream_with_retries(provider, request)
        stopped: Stopped | None = None
        try:
            async for batch in stream:
                for event in batch:
                    if type(event) is Restarted:
                        await self._restart(event)
                    elif type(event) is Stopped:
                        stopped = event
                        self.assembly.apply(event, now=now_ms() // 1000)
                    else:
                        self._tell(event)
                self._checkpoint_if_due()
        finally:
            await stream.aclose()
            await self._settle_checkpoint()
        if stopped is None:
            raise AssertionError("a stream ends with Stopped")
        return stopped

    def _tell(self, event: Any) -> None:
        added = self.assembly.apply(event, now=now_ms() // 1000)
        if added is not None:
            header = cast("Header", added.header)
            self.hub.stream(
                self.held.workspace_id,
                Delta(self.number, added.part, added.offset, added.text, header),
            )

    async def _restart(self, event: Restarted) -> None:
        logger.info("the model's stream begins anew: %s", event.reason)
        self.assembly.reset()
        await self._settle_checkpoint()
        self.hub.end(self.held.workspace_id, self.number)
        self.number = await writer.write(
            self.held.workspace_id,
            lambda tx: restart_reply(tx, self.held, self.message_id),
        )
        self.hub.begin(self.held.workspace_id, LiveMessage(self.number, self.message))

    def _checkpoint_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._saved_at == 0.0:
            self._saved_at = now
        if now - self._saved_at < CHECKPOINT_SECONDS:
            return
        if self._saving is not None and not self._saving.done():
            return  # the database is behind: the next one will hold these words too
        self._saved_at = now
        self._saving = asyncio.create_task(self._save(self.parts()))

    async def _save(self, parts: Parts) -> None:
        try:
            await writer.write(
                self.held.workspace_id,
                lambda tx: checkpoint(tx, self.held, self.message_id, parts),
            )
        except (LeaseLost, ShuttingDown):
            pass
        except Exception as error:  # noqa: BLE001  the whole message is written at its end
            logger.warning("a checkpoint was not written: %s", error)

    async def _settle_checkpoint(self) -> None:
        # A late checkpoint must not overtake the reset or the finish of the same row.
        if self._saving is not None:
            await asyncio.shield(self._saving)

    def close(self) -> None:
        """The message is saved or given up; its words come no more."""
        self.hub.end(self.held.workspace_id, self.number)
