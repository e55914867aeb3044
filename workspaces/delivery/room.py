"""A room: the readers of one workspace in this process, which get its log in order.

Events have numbers without gaps, and deltas have offsets. The room delivers events and deltas only
in sequence, and requests a repair from the database where something is missing. Each outbox decides
when to flush.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workspaces.delivery import native_frames
from workspaces.delivery.open_message import Applied, LiveMessage, OpenMessages
from workspaces.delivery.outboxes import NativeOutbox, V1Outbox, progress_of
from workspaces.delivery.readers import NativeReader, V1Reader
from workspaces.delivery.tool_output import OutputKey, ended_by
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import CLOSING, Delta, Kind, Output, StreamOnly
from workspaces.measuring import Measured, measure

HELD_LIMIT = 10_000  # deltas kept while a gap is repaired; further ones are read from the database


class Room:
    def __init__(
        self,
        workspace_id: str,
        *,
        producers: Mapping[int, LiveMessage],
        request_events: Callable[[Room], None],
        request_message: Callable[[Room, int], None],
    ) -> None:
        self.workspace_id = workspace_id
        self.primed = False
        self.last_number = 0
        self.live = OpenMessages(producers)
        self.native = NativeOutbox()
        self.v1 = V1Outbox(self.live)
        self._outputs: dict[OutputKey, Output] = {}  # the newest of each running tool
        self._early: dict[int, RecordedEvent] = {}  # events that arrived before their predecessors
        self._held: list[Delta] = []  # deltas that need an event or a repair first
        self._waiters: list[asyncio.Future[None]] = []
        self._request_events = request_events
        self._request_message = request_message

    # -- deltas

    def passed(self, delta: Delta) -> None:
        """Sends a delta that is already applied to its open message."""
        live = self.live.get(delta.number)
        if live is None:
            return
        if self.native.readers:
            self.native.add_delta(delta)
        if self.v1.readers:
            self.v1.add_change(delta.number, live.size)

    def stream(self, delta: Delta) -> None:
        """Applies and sends a delta of another process, which may arrive late, twice or never."""
        if not self.primed or delta.number > self.last_number:
            self._hold(delta)
            return
        live = self.live.get(delta.number)
        if live is None:
            return  # its message has finished
        outcome, new = live.apply(delta)
        if outcome is Applied.NEW:
            self.passed(new)
        elif outcome is Applied.GAP:
            self._hold(delta)
            self._request_message(self, delta.number)

    def repair(self, row: LiveMessage) -> None:
        """Replaces an open message by its row, after deltas were lost between processes."""
        have = self.live.get(row.number)
        if have is None or not row.covers(have):
            return
        self.live[row.number] = row
        if self.native.readers:
            self.native.send_progress(row)
        if self.v1.readers:
            self.v1.add_repaired(row.number)
        self._stream_held()

    def waits_for(self, number: int) -> bool:
        return any(delta.number == number for delta in self._held)

    def output(self, output: Output) -> None:
        """Sends the output so far of a tool or of a user's command."""
        if not self.primed:
            return
        if not output.call_id:
            number = self.live.number_of(output.message_id)
            if number is None:
                return  # the command has ended, or its start has not arrived yet
            live = self.live[number]
            live.show_output(output.text)
            if self.v1.readers:
                self.v1.add_change(number, live.size)
        elif not self._keep_output(output):
            return  # repeated for rooms that did not have it
        if self.native.readers:
            self.native.add_output(output)

    def _keep_output(self, output: Output) -> bool:
        """Keeps it for readers that join later; returns whether it is new."""
        key = (output.message_id, output.call_id)
        is_new = self._outputs.get(key) != output
        self._outputs[key] = output
        return is_new

    def _end_outputs(self, event: RecordedEvent) -> None:
        if event.kind == Kind.MESSAGE_CREATED or event.kind in CLOSING:
            message = event.payload["message"]
            for key in ended_by(message, self._outputs):
                del self._outputs[key]
            self.native.end_outputs(message)
        elif event.kind == Kind.RUN_FINISHED:  # also of calls whose results never came
            kept = self._outputs.items()
            self._outputs = {k: each for k, each in kept if each.session_id != event.session_id}

    def _hold(self, delta: Delta) -> None:
        if len(self._held) < HELD_LIMIT:
            self._held.append(delta)

    def _stream_held(self) -> None:
        held, self._held = self._held, []
        for delta in held:
            self.stream(delta)

    # -- events

    def prime(
        self, last_number: int, live: Mapping[int, LiveMessage], outputs: Iterable[Output] = ()
    ) -> None:
        """Sets the initial state from the log, then applies what arrived meanwhile."""
        for output in outputs:
            self._keep_output(output)
        self.last_number = last_number
        self.live.begin(live)
        self.primed = True
        self._drain()

    def restart(self, last_number: int, live: Mapping[int, LiveMessage]) -> None:
        """Sets the state after a gap that cannot be repaired.

        Its readers are closed. They reconnect with their cursors, which may be refused.
        """
        self.close()
        self.live.clear()
        self.prime(last_number, live)

    def publish(self, event: RecordedEvent) -> None:
        if event.number <= self.last_number and self.primed:
            return
        self._early[event.number] = event
        if self.primed:
            self._drain()

    async def wait_for_next(self) -> None:
        """Returns after the next event, or after 0.2 seconds."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await waiter

    def _drain(self) -> None:
        while (event := self._early.pop(self.last_number + 1, None)) is not None:
            self._apply(event)
        for number in [number for number in self._early if number <= self.last_number]:
            del self._early[number]
        self._stream_held()
        if self._early:
            self._request_events(self)

    def _apply(self, event: RecordedEvent) -> None:
        self.last_number = event.number
        measure(Measured.LOG_LAG, (now_ms() - event.created_at) / 1000)
        self._wake_waiters()
        closed = self.live.follow(event)
        self._end_outputs(event)
        if self.native.readers:
            known = native_frames.without_known_text
            self.native.add_event(event if closed is None else known(event, closed))
        if self.v1.readers:
            self.v1.add_event(event)

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- readers

    @property
    def is_empty(self) -> bool:
        return not self.native.readers and not self.v1.readers

    def readers(self) -> list[NativeReader | V1Reader]:
        return [*self.native.readers, *self.v1.readers]

    def join_native(self, reader: NativeReader) -> list[tuple[str, dict[str, Any]]]:
        """Adds a reader, which gets what follows ``last_number``.

        Returns the open messages and the output of running tools, as items without a number.
        """
        self.native.join(reader)
        return [
            *((StreamOnly.PROGRESS, progress_of(live)) for live in self.live.values()),
            *(
                (StreamOnly.OUTPUT, native_frames.output_data(output))
                for output in self._outputs.values()
            ),
        ]

    def join_v1(self, reader: V1Reader) -> None:
        self.v1.join(reader)

    def leave(self, reader: NativeReader | V1Reader) -> None:
        reader.close()
        if isinstance(reader, NativeReader):
            self.native.leave(reader)
        else:
            self.v1.leave(reader)

    def close(self) -> None:
        for reader in self.readers():
            self.leave(reader)
