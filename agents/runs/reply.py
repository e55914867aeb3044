"""One model reply on its way: its words go to the hub at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.assembly import ReplyAssembly
from agents.llm.contract import ModelEvent, ModelRequest, Provider, Restarted, Stopped
from agents.llm.retries import MOST_TRIES, stream_with_retries
from agents.runs.checkpoints import Checkpoints
from agents.runs.lease import Held
from agents.runs.open_reply import Retry, restart_reply
from workspaces.delivery.hub import Hub
from workspaces.delivery.live import LiveMessage
from workspaces.log.parts import Parts
from workspaces.log.timestamps import now_ms
from workspaces.log.types import Delta
from workspaces.log.writer import writer

logger = logging.getLogger(__name__)


@dataclass
class Reply:
    """The reply that a run is receiving, or has received and not yet saved."""

    held: Held
    hub: Hub
    checkpoints: Checkpoints
    number: int
    message: Mapping[str, Any]
    taken: frozenset[str] = frozenset()  # call ids of the run's earlier replies
    on_begin: Callable[[], None] | None = None  # called at the model's first words
    is_summary: bool = False

    def __post_init__(self) -> None:
        self.message_id: str = self.message["id"]
        self.assembly = ReplyAssembly(taken=self.taken)
        self.hub.begin(self.held.workspace_id, LiveMessage(self.number, self.message))
        self.checkpoints.open(self)

    def parts(self) -> Parts:
        return self.assembly.parts(now=now_ms() // 1000)

    async def receive(self, provider: Provider, request: ModelRequest) -> Stopped:
        """Streams to the regular end. Raises ``ModelError``; cancelling closes the stream."""
        stream = stream_with_retries(provider, request)
        stopped: Stopped | None = None
        try:
            async for batch in stream:
                now = now_ms() // 1000
                if self.on_begin is not None:
                    self.on_begin()
                    self.on_begin = None
                for event in batch:
                    if type(event) is Restarted:
                        await self._restart(event)
                    elif type(event) is Stopped:
                        stopped = event
                        self.assembly.apply(event, now=now)
                    else:
                        self._tell(event, now)
        finally:
            await stream.aclose()
        if stopped is None:
            raise AssertionError("a stream ends with Stopped")
        return stopped

    def say(self, event: ModelEvent) -> None:
        """Words that come from elsewhere than from a model's stream."""
        self._tell(event, now_ms() // 1000)

    def _tell(self, event: ModelEvent, now: int) -> None:
        added = self.assembly.apply(event, now=now)
        if added is not None:
            delta = Delta(self.number, *added)
            self.hub.stream(self.held.workspace_id, delta)

    async def _restart(self, event: Restarted) -> None:
        logger.info("the model's stream starts again: %s", event.reason)
        self.assembly.reset()
        self.hub.end(self.held.workspace_id, self.number)
        retry = Retry(event.attempt, MOST_TRIES, round(event.delay_seconds, 1), event.reason)
        self.number = await writer.write(
            self.held.workspace_id,
            lambda tx: restart_reply(tx, self.held, self.message_id, retry),
        )
        self.hub.begin(self.held.workspace_id, LiveMessage(self.number, self.message))

    def close(self) -> None:
        """The message is saved or given up; its words come no more."""
        self.checkpoints.close(self)
        self.hub.end(self.held.workspace_id, self.number)
