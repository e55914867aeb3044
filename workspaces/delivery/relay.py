"""Relays events and deltas between the hubs of several processes.

There is one channel for each process and one group for each workspace. Correctness does not depend
on the layer, because rooms detect and repair gaps. With the in-memory layer there is no other
process, and nothing is relayed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from channels.layers import BaseChannelLayer, InMemoryChannelLayer, get_channel_layer

from workspaces.backoff import Backoff
from workspaces.delivery.open_message import coalesced
from workspaces.delivery.outboxes import FlushThrottle
from workspaces.delivery.tool_output import ended_by
from workspaces.log.ids import new_id
from workspaces.log.log_throttle import LogThrottle
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import CLOSING, Delta, Kind, Output
from workspaces.tasks import cancel_within

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 0.002
# Shortest time between two rounds of messages that hold only words: each message wakes this process,
# Redis and every process with readers. A round with an event does not wait.
WORDS_SECONDS = 0.01
MESSAGE_LIMIT = 262_144
# Timeout of one call to the layer: a hanging Redis must not block the readers.
LAYER_SECONDS = 1.0
STARTING_SECONDS = 5.0
STOPPING_SECONDS = 1.0
ECHO = "relay.echo"  # the type of a message to ourselves


def group_of(workspace_id: str) -> str:
    return f"workspace.{workspace_id}"


class Relay:
    def __init__(
        self,
        *,
        on_event: Callable[[RecordedEvent], None],
        on_delta: Callable[[str, Delta], None],
        on_output: Callable[[str, Output], None],
        words_seconds: float = WORDS_SECONDS,
    ) -> None:
        self._words_seconds = words_seconds
        self._on_event = on_event
        self._on_delta = on_delta
        self._on_output = on_output
        self._origin = new_id()
        layer = get_channel_layer()
        # With the in-memory layer there is no other process.
        self._layer = None if isinstance(layer, InMemoryChannelLayer) else layer
        self._own: tuple[BaseChannelLayer, str] | None = None  # the layer and our channel there
        self._outbox: dict[str, list[RecordedEvent | Delta | Output]] = {}
        self._outputs: dict[str, dict[tuple[str, str], Output]] = {}  # the newest of each tool
        self._due = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._joining: dict[str, asyncio.Task[None]] = {}  # groups whose subscription failed so far
        self._throttle = LogThrottle()
        self._echo: asyncio.Event | None = None  # set when our own message has come back

    @property
    def is_needed(self) -> bool:
        return self._layer is not None

    async def start(self) -> None:
        if self._layer is None:
            return
        async with asyncio.timeout(STARTING_SECONDS):
            channel = await self._layer.new_channel()
        self._own = (self._layer, channel)
        self._flush = FlushThrottle(asyncio.get_running_loop(), self._due.set)
        self._tasks = [
            asyncio.create_task(self._send_all(self._layer), name="relay-send"),
            asyncio.create_task(self._receive_all(self._layer, channel), name="relay-receive"),
        ]

    async def stop(self) -> None:
        """Stops within ``STOPPING_SECONDS``, even if the layer hangs."""
        await cancel_within([*self._tasks, *self._joining.values()], seconds=STOPPING_SECONDS)
        self._tasks = []

    async def check(self) -> None:
        """Returns when a message to ourselves has come back through the layer, both ways.

        Raises ``TimeoutError`` after ``LAYER_SECONDS``, or the layer's error.
        """
        if self._own is None:
            return
        layer, channel = self._own
        self._echo = asyncio.Event()
        async with asyncio.timeout(LAYER_SECONDS):
            await layer.send(channel, {"type": ECHO})
            await self._echo.wait()

    async def join(self, workspace_id: str) -> None:
        """Subscribes to a workspace; returns within ``LAYER_SECONDS``.

        After a failure it retries in the background; meanwhile the room polls the database.
        """
        if self._own is None:
            return
        if not await self._try_to_join(*self._own, workspace_id):
            task = asyncio.create_task(self._join_later(*self._own, workspace_id))
            self._joining[workspace_id] = task
            task.add_done_callback(lambda _: self._joining.pop(workspace_id, None))

    async def leave(self, workspace_id: str) -> None:
        if self._own is None:
            return
        layer, channel = self._own
        joining = self._joining.pop(workspace_id, None)
        if joining is not None:
            joining.cancel()
        try:
            async with asyncio.timeout(LAYER_SECONDS):
                await layer.group_discard(group_of(workspace_id), channel)
        except Exception as error:  # noqa: BLE001  items without a room are ignored
            self._warn(error)

    async def _join_later(self, layer: BaseChannelLayer, channel: str, workspace_id: str) -> None:
        backoff = Backoff(limit_seconds=5.0)
        while True:
            await asyncio.sleep(backoff.next_seconds())
            if await self._try_to_join(layer, channel, workspace_id):
                return

    async def _try_to_join(self, layer: BaseChannelLayer, channel: str, workspace_id: str) -> bool:
        try:
            async with asyncio.timeout(LAYER_SECONDS):
                await layer.group_add(group_of(workspace_id), channel)
        except Exception as error:  # noqa: BLE001  the caller retries
            self._warn(error)
            return False
        return True

    def _warn(self, error: Exception) -> None:
        if self._throttle.admit("layer") is not None:
            reason = str(error) or f"no answer within {LAYER_SECONDS:g} s"
            logger.warning("the channel layer failed: %s", reason)

    def put(self, workspace_id: str, item: RecordedEvent | Delta | Output) -> None:
        """Queues an item for the other processes; never blocks.

        An event is sent soon. Words and output wait for the previous message to be some time ago.
        """
        if not self._tasks:
            return
        if isinstance(item, Output):
            newest = self._outputs.setdefault(workspace_id, {})
            newest[item.message_id, item.call_id] = item
        else:
            self._outbox.setdefault(workspace_id, []).append(item)
            if isinstance(item, RecordedEvent):
                self._end_outputs(item)
        self._flush.soon(0 if isinstance(item, RecordedEvent) else self._words_seconds)

    def _end_outputs(self, event: RecordedEvent) -> None:
        """Drops queued output of tools that this event ends: it must not follow their end."""
        newest = self._outputs.get(event.workspace_id)
        if newest and (event.kind == Kind.MESSAGE_CREATED or event.kind in CLOSING):
            for key in ended_by(event.payload["message"], newest):
                del newest[key]

    async def _send_all(self, layer: BaseChannelLayer) -> None:
        while True:
            await self._due.wait()
            await asyncio.sleep(FLUSH_SECONDS)
            self._due.clear()
            outbox, self._outbox = self._outbox, {}
            for workspace_id, newest in self._outputs.items():
                outbox.setdefault(workspace_id, []).extend(newest.values())
            self._outputs = {}
            try:
                for workspace_id, items in outbox.items():
                    async with asyncio.timeout(LAYER_SECONDS):
                        await layer.group_send(
                            group_of(workspace_id), _message(self._origin, workspace_id, items)
                        )
            except Exception as error:  # noqa: BLE001  rooms repair lost items
                # The other workspaces of this round are dropped too: each could time out as well.
                self._warn(error)

    async def _receive_all(self, layer: BaseChannelLayer, channel: str) -> None:
        while True:
            try:
                message = await layer.receive(channel)
                if message.get("type") == ECHO:
                    if self._echo is not None:
                        self._echo.set()
                elif message.get("origin") != self._origin:
                    self._hand_on(message)
            except Exception as error:  # noqa: BLE001  a broken layer must not end the stream
                self._warn(error)
                await asyncio.sleep(0.2)

    def _hand_on(self, message: dict[str, Any]) -> None:
        workspace_id = message["workspace"]
        for item in message["items"]:
            if isinstance(item, list) and len(item) == 5:
                self._on_delta(workspace_id, Delta(*item))
            elif isinstance(item, list) and len(item) == 4:
                self._on_output(workspace_id, Output(*item))
            else:
                number, kind, session_id, payload_json, created_at, _ = item
                payload_bytes = bytes(payload_json)
                self._on_event(
                    RecordedEvent(
                        workspace_id,
                        number,
                        kind,
                        session_id,
                        orjson.loads(payload_bytes),
                        payload_bytes,
                        created_at,
                    )
                )


def _message(
    origin: str, workspace_id: str, items: Sequence[RecordedEvent | Delta | Output]
) -> dict[str, Any]:
    rows: list[list[Any]] = []
    waiting: list[Delta] = []
    for item in items:
        if isinstance(item, Delta):
            waiting.append(item)
            continue
        rows += [_delta_row(delta) for delta in coalesced(waiting)]
        waiting = []
        if isinstance(item, Output):
            rows.append(list(item))
            continue
        if len(item.payload_json) <= MESSAGE_LIMIT:  # larger ones are read from the log
            rows.append(
                [item.number, item.kind, item.session_id, item.payload_json, item.created_at, "e"]
            )
    rows += [_delta_row(delta) for delta in coalesced(waiting)]
    return {"type": "room.items", "origin": origin, "workspace": workspace_id, "items": rows}


def _delta_row(delta: Delta) -> list[Any]:
    header = dict(delta.header) if isinstance(delta.header, dict) else delta.header
    return [delta.number, delta.part, delta.offset, delta.text, header]
