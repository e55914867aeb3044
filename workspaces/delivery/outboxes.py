"""What waits in a room for the next write to its readers, and when that write comes."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

from workspaces.delivery import native_frames, v1_frames
from workspaces.delivery.native_frames import Frames, Item
from workspaces.delivery.open_message import LiveMessage, OpenMessages
from workspaces.delivery.readers import NativeReader, V1Reader
from workspaces.delivery.tool_output import ended_by
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Delta, Kind, Output, StreamOnly


class FlushThrottle:
    """Calls ``flush`` soon after ``soon``, at least an interval after the previous call.

    Items that arrive meanwhile share one write, so the intervals grow with the cost of a write.
    An interval of 0 overrides a longer wait and delays no later flush, so the first delta
    follows the start of its message at once.
    """

    __slots__ = ("_flush", "_handle", "_interval", "_is_limited", "_last", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, flush: Callable[[], None]) -> None:
        self._loop = loop
        self._flush = flush
        self._handle: asyncio.Handle | None = None
        # The shortest interval requested since the last flush.
        self._interval = math.inf
        self._last = 0.0  # time of the last flush with an interval
        self._is_limited = False

    def soon(self, interval: float) -> None:
        if interval > 0:
            self._is_limited = True
        if interval >= self._interval:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._interval = interval
        due = self._last + interval
        if due <= self._loop.time():
            self._handle = self._loop.call_soon(self._run)
        else:
            self._handle = self._loop.call_at(due, self._run)

    def _run(self) -> None:
        self._interval = math.inf
        if self._is_limited:
            self._last = self._loop.time()
            self._is_limited = False
        self._flush()


Reader = TypeVar("Reader", NativeReader, V1Reader)

PART = 64  # readers that are written to in one turn of the loop: that takes about 0.6 ms
SHARE = 0.25  # of the processor, which the writes of one room take at most
LONGEST_SECONDS = 0.5  # between two writes, whatever they cost


class FanOut(Generic[Reader]):
    """Offers each batch to all readers of a room, to some of them in each turn of the loop.

    A request waits for one part of a write to 1,000 readers, not for the whole of it.
    ``interval`` is the time between two writes that leaves enough of the loop's time to other work.
    It follows from the time that the last writes took, which depends on the size of a batch, the
    transport and the machine as much as on the number of readers.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], tuple[float, float]] = lambda: (time.thread_time(), time.monotonic()),
    ) -> None:
        """``clock``: the processor time of this thread, and the time on the wall."""
        self.interval = 0.0
        self._loop = loop
        self._clock = clock
        self._offer: Callable[[Collection[Reader]], None] | None = None
        self._rest: list[Reader] = []
        self._next: asyncio.Handle | None = None
        self._began = (0.0, 0.0)
        self._cost = 0.0  # seconds, smoothed

    def send(
        self, readers: Collection[Reader], offer: Callable[[Collection[Reader]], None]
    ) -> None:
        """Calls ``offer`` for all readers, in parts; the batch before goes to all of them first."""
        self.finish()
        if len(readers) <= PART:  # costs less than the shortest intervals allow: not measured
            self.interval = self._cost = 0.0
            offer(readers)
            return
        self._offer = offer
        self._rest = list(readers)
        self._began = self._clock()
        self._send_part()

    def finish(self) -> None:
        """Offers an unfinished batch to the rest of the readers now."""
        if self._offer is None:
            return
        if self._next is not None:
            self._next.cancel()
        rest, self._rest = self._rest, []
        self._offer(rest)
        self._end()

    def _send_part(self) -> None:
        if self._offer is None or not self._rest:
            self._end()
            return
        part = self._rest[-PART:]
        del self._rest[-PART:]
        self._offer(part)
        # In the next turn the loop has written this part to the sockets.
        self._next = self._loop.call_soon(self._send_part)

    def _end(self) -> None:
        self._offer = self._next = None
        processor, wall = (
            after - before for before, after in zip(self._began, self._clock(), strict=True)
        )
        # On a crowded machine the readers need more time, too: then a write takes long on the wall.
        self._cost += (max(processor, wall / 2) - self._cost) / 4
        self.interval = min(LONGEST_SECONDS, self._cost / SHARE)


DELTAS_SECONDS = 0.0015  # shortest time between two writes of deltas
OUTPUT_SECONDS = 0.1  # the same for tool output


class NativeOutbox:
    """What waits for a room's native ``readers``; the caller checks that there are any.

    Events and deltas are queued in order. Of each running tool only the newest output is kept,
    and it is sent less often. Each batch is encoded once for each wire.
    """

    def __init__(self) -> None:
        self.readers: set[NativeReader] = set()
        self._items: list[Item] = []
        self._outputs: dict[tuple[str, str], Output] = {}  # the newest of each tool, not sent yet
        loop = asyncio.get_running_loop()
        self.fan_out: FanOut[NativeReader] = FanOut(loop)
        self._throttle = FlushThrottle(loop, self.flush)
        self._output_throttle = FlushThrottle(loop, self.flush_outputs)

    def add_delta(self, delta: Delta) -> None:
        self._items.append(delta)
        self._throttle.soon(max(DELTAS_SECONDS, self.fan_out.interval))

    def add_event(self, event: RecordedEvent) -> None:
        self._items.append(event)
        self._throttle.soon(0)

    def add_output(self, output: Output) -> None:
        self._outputs[output.message_id, output.call_id] = output
        self._output_throttle.soon(OUTPUT_SECONDS + self.fan_out.interval)

    def end_outputs(self, message: Mapping[str, Any]) -> None:
        """Drops queued output of tools that this message ends: it must not follow their end."""
        for key in ended_by(message, self._outputs):
            del self._outputs[key]
        for reader in self.readers:
            reader.end_outputs(message)

    def send_progress(self, live: LiveMessage) -> None:
        """Sends an open message in full after deltas were lost, behind everything queued before."""
        self.flush()
        kind, progress = StreamOnly.PROGRESS, progress_of(live)
        encoded = {frames: frames.one(kind, progress) for frames in self._frames()}
        self._send(encoded, 0)

    def flush(self) -> None:
        items, self._items = self._items, []
        if not items:
            return
        number = max((i.number for i in items if isinstance(i, RecordedEvent)), default=0)
        encoded = {frames: frames.batch(items) for frames in self._frames()}
        self._send(encoded, number)

    def _send(self, encoded: Mapping[Frames, bytes], number: int) -> None:
        def offer(readers: Collection[NativeReader]) -> None:
            for reader in readers:
                reader.offer(encoded[reader.frames], number)

        self.fan_out.send(self.readers, offer)

    def flush_outputs(self) -> None:
        outputs, self._outputs = self._outputs, {}
        self.flush()  # the events that started these tools
        self.fan_out.finish()
        wires = self._frames()
        for key, output in outputs.items():
            data = native_frames.output_data(output)
            encoded = {frames: frames.one(StreamOnly.OUTPUT, data) for frames in wires}
            for reader in self.readers:
                reader.offer_output(key, encoded[reader.frames])

    def _frames(self) -> set[Frames]:
        return {reader.frames for reader in self.readers}

    def join(self, reader: NativeReader) -> None:
        """Adds a reader, which gets only what is queued from now on."""
        self.flush()
        self.readers.add(reader)

    def leave(self, reader: NativeReader) -> None:
        self.readers.discard(reader)


def progress_of(live: LiveMessage) -> dict[str, Any]:
    return {"number": live.number, "message": live.to_wire()}


# Shortest time between two writes of open messages, which are sent in full. With 20 runs this
# puts 9 deltas into each write, and delays a delta by 4.5 ms.
STATES_SECONDS = 0.008
LONG_SECONDS = 0.033  # the same for long messages
SHORT_SIZE = 16_000  # characters; longer ones are long


class V1Outbox:
    """What waits for a room's ``/v1`` ``readers``; the caller checks that there are any.

    Final frames are queued in order. Of an open message only its number is queued, because its
    newest state is sent in full. A state is encoded once for all readers.
    """

    def __init__(self, live: OpenMessages) -> None:
        self.readers: set[V1Reader] = set()
        loop = asyncio.get_running_loop()
        self.fan_out: FanOut[V1Reader] = FanOut(loop)
        self._live = live
        self._finals: list[bytes] = []
        self._changed: set[int] = set()
        self._replies: dict[
            str, Mapping[str, Any]
        ] = {}  # the newest reply of each session with a run
        self._throttle = FlushThrottle(loop, self.flush)

    def add_change(self, number: int, size: int) -> None:
        """Queues a changed open message; ``size`` is its length in characters."""
        self._changed.add(number)
        interval = STATES_SECONDS if size <= SHORT_SIZE else LONG_SECONDS
        self._throttle.soon(max(interval, self.fan_out.interval))

    def add_repaired(self, number: int) -> None:
        """Queues a repaired open message for the next turn of the loop."""
        self._changed.add(number)
        self._throttle.soon(0)

    def add_event(self, event: RecordedEvent) -> None:
        finals = v1_frames.frames_of(event, reply=self._reply_of(event))
        if finals:
            self._finals.append(finals)
            self._throttle.soon(0)
        if event.kind == Kind.WORKSPACE_CLOSED:
            # Clients get what is queued, then their streams end.
            self.flush()
            self.fan_out.finish()
            for reader in self.readers:
                reader.close()

    def _reply_of(self, event: RecordedEvent) -> Mapping[str, Any] | None:
        """Returns the reply before a run's end, an event of the same transaction."""
        if event.kind == Kind.RUN_FINISHED:
            return self._replies.pop(event.session_id, None)
        message = event.payload.get("message")
        if message is not None and message["role"] == "assistant":
            self._replies[event.session_id] = message
        return None

    def flush(self) -> None:
        finals, self._finals = b"".join(self._finals), []
        changed, self._changed = self._changed, set()
        if not self.readers or not (finals or changed):
            return

        def offer(readers: Collection[V1Reader]) -> None:
            # Again for each part: a reader may have taken a newer state in the meantime.
            batch = self.batch(finals, changed)
            for reader in readers:
                reader.offer(finals, changed, batch)

        self.fan_out.send(self.readers, offer)

    def batch(self, finals: bytes, changed: set[int]) -> bytes:
        """Returns the final frames, then the newest state of changed, still open messages."""
        return finals + b"".join([self.state(number) for number in sorted(changed)])

    def state(self, number: int) -> bytes:
        """Returns an open message's newest state, encoded once; ``b""`` if it has closed."""
        live = self._live.get(number)
        if live is None:
            return b""
        if live.encoded is None:
            live.encoded = v1_frames.open_message_frame(live.json())
        return live.encoded

    def join(self, reader: V1Reader) -> None:
        """Adds a reader, which gets the open messages and then everything queued from now on."""
        self.flush()
        self.readers.add(reader)
        reader.offer(b"", set(self._live))

    def leave(self, reader: V1Reader) -> None:
        self.readers.discard(reader)
