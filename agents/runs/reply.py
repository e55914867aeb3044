"""Receives one model reply: sends its text to the hub at once, and writes checkpoints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import orjson

from agents.llm.assembly import ReplyAssembly
from agents.llm.contract import ModelEvent, ModelRequest, Provider, Restarted, Stopped
from agents.llm.retries import MOST_TRIES, stream_with_retries
from agents.runs.lease import Lease, require_lease
from workspaces.actions import messages
from workspaces.delivery.hub import Hub
from workspaces.delivery.open_message import LiveMessage
from workspaces.log.errors import ShuttingDown
from workspaces.log.parts import Parts, parts_to_wire
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.types import Delta
from workspaces.log.writer import writer


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed try, and the pause before the next."""

    attempt: int  # the next one's number
    attempts: int  # how many there are at most
    delay_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The words of an open reply so far."""

    held: Lease
    message_id: str
    stream_number: int
    parts: Parts


def save_checkpoints(tx: Transaction, checkpoints: Sequence[Checkpoint]) -> None:
    """No event: readers have had the words. One whose claim is lost, whose message is finished
    or has begun anew meanwhile changes nothing."""
    tx.cursor.executemany(
        "UPDATE workspaces_message SET parts = %s, updated_at = %s WHERE id = %s"
        " AND stream_number = %s"
        " AND EXISTS (SELECT 1 FROM agents_run WHERE id = %s AND fence = %s)",
        [
            (
                orjson.dumps(parts_to_wire(c.parts)).decode(),
                tx.now,
                c.message_id,
                c.stream_number,
                c.held.key,
                c.held.fence,
            )
            for c in checkpoints
        ],
    )


def restart_reply(tx: Transaction, held: Lease, message_id: str, retry: Retry) -> int:
    """The model's try failed and is repeated: its words so far are forgotten."""
    run = require_lease(tx, held)
    return messages.restart_message(tx, run.workspace_id, message_id, retry=asdict(retry))


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


@dataclass
class Reply:
    """The reply that a run is receiving, or has received and not yet saved."""

    held: Lease
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
