"""The hub: the rooms of this process, one for each workspace with readers here.

It primes rooms and repairs them from the database, and relays to other processes. It runs in one
event loop. Correctness does not depend on it: the log is authoritative, and the hub only makes
delivery fast.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from workspaces.delivery import event_log
from workspaces.delivery.open_message import Applied, LiveMessage
from workspaces.delivery.readers import NativeReader, V1Reader
from workspaces.delivery.relay import Relay
from workspaces.delivery.room import Room
from workspaces.delivery.tool_output import OutputKey, RunningOutputs
from workspaces.log.reader import read
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Delta, Output

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 10.0
POLL_SECONDS = 1.0  # with several processes: finds events whose relay message was lost
REPAIR_SECONDS = 0.1
# With several processes: open messages without new words for this long are read from the database,
# because their words may be lost on the way. A model that pauses costs a read each time.
STILL_SECONDS = 0.5
STILL_AT_ONCE = 200
OUTPUT_SECONDS = 2.0  # with several processes: repeats the output of tools that print nothing more
LINGER_SECONDS = 5.0  # keeps an empty room for a reader that reconnects
EVENTS, LEAVING = 0, -1  # in a repair's key, instead of a message's number


class Hub:
    def __init__(
        self,
        *,
        poll_seconds: float = POLL_SECONDS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        linger_seconds: float = LINGER_SECONDS,
        output_seconds: float = OUTPUT_SECONDS,
        still_seconds: float = STILL_SECONDS,
    ) -> None:
        self._poll_seconds = poll_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._linger_seconds = linger_seconds
        self._output_seconds = output_seconds
        self._still_seconds = still_seconds
        self._rooms: dict[str, Room] = {}
        self._priming: dict[str, asyncio.Task[Room]] = {}
        self._producers: dict[str, dict[int, LiveMessage]] = {}
        self._outputs = RunningOutputs()
        self._repairs: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._relay = Relay(
            on_event=self._publish_here,
            on_delta=self._stream_here,
            on_output=self._output_here,
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self._relay.start()
        self._tasks = [asyncio.create_task(self._beat(), name="hub-heartbeat")]
        if self._relay.is_needed:
            self._tasks += [
                asyncio.create_task(self._poll(), name="hub-poll"),
                asyncio.create_task(self._read_still(), name="hub-still"),
                asyncio.create_task(self._repeat_outputs(), name="hub-outputs"),
            ]

    async def check_layer(self) -> None:
        """Raises an error, or waits, while the other processes cannot be reached."""
        await self._relay.check()

    async def stop(self) -> None:
        tasks = [*self._tasks, *self._repairs.values(), *self._priming.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for room in self._rooms.values():
            room.close()
        self._rooms.clear()
        await self._relay.stop()

    # -- producers

    def publish(self, recorded: Sequence[RecordedEvent]) -> None:
        """Publishes committed events, here and in the other processes."""
        for event in recorded:
            self._publish_here(event)
            self._relay.put(event.workspace_id, event)

    def begin(self, workspace_id: str, live: LiveMessage) -> None:
        """Registers an open message that this process writes; its deltas go to ``stream``."""
        self._producers.setdefault(workspace_id, {})[live.number] = live
        room = self._rooms.get(workspace_id)
        if room is not None:
            room.live.adopt(live)

    def stream(self, workspace_id: str, delta: Delta) -> None:
        """Sends a delta of a message that this process writes."""
        live = self._producers[workspace_id][delta.number]
        outcome, _ = live.apply(delta)
        if outcome is not Applied.NEW:
            raise AssertionError(f"a producer streams in order, not {outcome}: {delta.offset}")
        room = self._rooms.get(workspace_id)
        if room is not None:
            room.passed(delta)
        if self._relay.is_needed:
            self._relay.put(workspace_id, delta)

    def end(self, workspace_id: str, number: int) -> None:
        """Removes an open message that is finished or abandoned. May be called twice."""
        ours = self._producers.get(workspace_id)
        if ours is not None:
            ours.pop(number, None)
            if workspace_id not in self._rooms:  # a room shares this dict
                self._forget(workspace_id)

    def output(self, workspace_id: str, output: Output) -> None:
        """Sends the output so far of a tool or a user's command; losing it does no harm."""
        self._outputs.keep(workspace_id, output)
        self._output_here(workspace_id, output)
        self._relay.put(workspace_id, output)

    def end_output(self, workspace_id: str, key: OutputKey) -> None:
        """Forgets the output of a tool that has ended; readers get its result."""
        self._outputs.end(workspace_id, key)

    # -- readers

    async def room(self, workspace_id: str) -> Room:
        """Returns the workspace's primed room. Raises ``WorkspaceUnknown``."""
        room = self._rooms.get(workspace_id)
        if room is not None and room.primed:
            return room
        task = self._priming.get(workspace_id)
        if task is None:
            task = asyncio.create_task(self._prime(workspace_id), name="hub-prime")
            self._priming[workspace_id] = task
            task.add_done_callback(lambda _: self._priming.pop(workspace_id, None))
        return await asyncio.shield(task)

    def count_readers(self) -> dict[str, int]:
        """Returns how many native and `/v1` streams are open."""
        rooms = self._rooms.values()
        return {
            "native": sum(len(room.native.readers) for room in rooms),
            "v1": sum(len(room.v1.readers) for room in rooms),
        }

    async def catch_up(self, room: Room, number: int) -> None:
        """Returns when the room has sent this event of the log."""
        while room.last_number < number:
            self._request_events(room)
            await room.wait_for_next()

    def leave(self, room: Room, reader: NativeReader | V1Reader) -> None:
        room.leave(reader)
        if room.is_empty:
            asyncio.get_running_loop().call_later(self._linger_seconds, self._drop_if_empty, room)

    async def _prime(self, workspace_id: str) -> Room:
        room = Room(
            workspace_id,
            producers=self._producers.setdefault(workspace_id, {}),
            request_events=self._request_events,
            request_message=self._request_message,
        )
        # Registered before the log is read: the room queues events that are published meanwhile.
        self._rooms[workspace_id] = room
        try:
            await self._relay.join(workspace_id)
            snapshot = await read(event_log.read_snapshot, workspace_id)
        except BaseException:
            self._forget(workspace_id)
            await self._relay.leave(workspace_id)
            raise
        room.prime(snapshot.last_number, snapshot.live, self._outputs.of(workspace_id))
        return room

    def _drop_if_empty(self, room: Room) -> None:
        if room.is_empty and self._rooms.get(room.workspace_id) is room:
            self._forget(room.workspace_id)
            room.close()
            if self._relay.is_needed:
                self._in_background(
                    (room.workspace_id, LEAVING), self._relay.leave(room.workspace_id)
                )

    def _forget(self, workspace_id: str) -> None:
        """Removes the room, and the workspace's producers if there are none left."""
        self._rooms.pop(workspace_id, None)
        if not self._producers.get(workspace_id):
            self._producers.pop(workspace_id, None)

    # -- repair

    def _publish_here(self, event: RecordedEvent) -> None:
        room = self._rooms.get(event.workspace_id)
        if room is not None:
            room.publish(event)

    def _stream_here(self, workspace_id: str, delta: Delta) -> None:
        room = self._rooms.get(workspace_id)
        if room is not None:
            room.stream(delta)

    def _output_here(self, workspace_id: str, output: Output) -> None:
        room = self._rooms.get(workspace_id)
        if room is not None:
            room.output(output)

    def _request_events(self, room: Room) -> None:
        self._repair(room, EVENTS)

    def _request_message(self, room: Room, number: int) -> None:
        self._repair(room, number)

    def _repair(self, room: Room, number: int) -> None:
        key = (room.workspace_id, number)
        if key in self._repairs:
            return
        work = self._read_events(room) if number == EVENTS else self._read_message(room, number)
        self._in_background(key, work)

    def _in_background(self, key: tuple[str, int], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="hub-repair")
        self._repairs[key] = task
        task.add_done_callback(lambda _: self._repairs.pop(key, None))

    async def _read_events(self, room: Room) -> None:
        while True:
            after = room.last_number
            page = await read(event_log.read_events, room.workspace_id, after=after)
            if not page or page[0].number > after + 1:
                oldest = await read(event_log.read_oldest, room.workspace_id)
                if oldest > room.last_number + 1:  # what it lacks was deleted because of its age
                    snapshot = await read(event_log.read_snapshot, room.workspace_id)
                    room.restart(snapshot.last_number, snapshot.live)
                    return
            for event in page:
                room.publish(event_log.with_payload(event))
            if len(page) < event_log.PAGE:
                return

    async def _read_message(self, room: Room, number: int) -> None:
        # The row lags behind the deltas by up to a checkpoint: read it until it has caught up.
        while number in room.live and not room.is_empty:
            row = await read(event_log.read_open_message, room.workspace_id, number)
            if row is None:
                return
            room.repair(row)
            if not room.waits_for(number):
                return
            await asyncio.sleep(REPAIR_SECONDS)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            for room in list(self._rooms.values()):
                for reader in room.readers():
                    reader.beat()

    async def _repeat_outputs(self) -> None:
        """Brings the output of running tools to rooms that other processes have made since."""
        while True:
            await asyncio.sleep(self._output_seconds)
            for workspace_id, output in self._outputs:
                self._relay.put(workspace_id, output)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            for room in list(self._rooms.values()):
                try:
                    if not room.is_empty and room.primed:
                        head = await read(event_log.read_head, room.workspace_id)
                        if head > room.last_number:
                            self._request_events(room)
                except Exception as error:  # noqa: BLE001  the next poll retries
                    logger.warning("could not look for lost events: %s", error)

    async def _read_still(self) -> None:
        """Reads the words of messages that other processes write and that seem to stand still."""
        sizes: dict[tuple[str, int], int] = {}
        while True:
            await asyncio.sleep(self._still_seconds)
            before, sizes = sizes, self._sizes_elsewhere()
            still = [key for key, size in sizes.items() if before.get(key) == size]
            try:
                for start in range(0, len(still), STILL_AT_ONCE):
                    some = still[start : start + STILL_AT_ONCE]
                    rows = await read(event_log.read_open_messages, some)
                    for (workspace_id, number), row in rows.items():
                        room = self._rooms.get(workspace_id)
                        live = None if room is None else room.live.get(number)
                        if room is not None and live is not None and row.size > live.size:
                            room.repair(row)
            except Exception as error:  # noqa: BLE001  the next round retries
                logger.warning("could not look for lost words: %s", error)

    def _sizes_elsewhere(self) -> dict[tuple[str, int], int]:
        """Returns the sizes of the open messages with readers here that others write."""
        return {
            (workspace_id, number): live.size
            for workspace_id, room in self._rooms.items()
            if room.primed and not room.is_empty
            for number, live in room.live.items()
            if number not in self._producers.get(workspace_id, ())
        }
