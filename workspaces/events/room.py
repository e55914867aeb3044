"""One workspace's readers in this process, fed in log order.

Events arrive with gap-free numbers, deltas with offsets; the room passes on
only what follows what it passed on before, and asks for a repair from the
database where something is missing. What arrives within a moment is encoded
once for each wire and handed to every reader.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from workspaces.events import native_frames, v1_frames
from workspaces.events.live import Applied, LiveMessage
from workspaces.events.native_frames import Item
from workspaces.events.outputs import ended_by
from workspaces.events.pace import Pace
from workspaces.events.readers import NativeReader, V1Reader, Wire
from workspaces.events.types import CLOSING, STARTING, Delta, Kind, Output, StreamOnly
from workspaces.storage.transaction import Recorded

# At least so long between two writes of words: to a native reader, and to a ``/v1`` reader, who
# gets whole messages. Of 20 runs the second gathers 9 words a write, for 4.5 ms of a word's way.
NATIVE_SECONDS = 0.0015
V1_SECONDS = 0.008
# How long words may wait before they are told, so that they come together: with native readers,
# with others, with none.
PROMPT_SECONDS = 0.002
V1_PATIENCE_SECONDS = 0.009
UNREAD_SECONDS = 0.05
OUTPUT_SECONDS = 0.1  # at most so often a reader is told of what runs
HELD_LIMIT = 10_000  # deltas kept while a gap is repaired; more, and they are read anew


class Room:
    def __init__(
        self,
        workspace_id: str,
        *,
        producers: Mapping[int, LiveMessage],
        ask_events: Callable[[Room], None],
        ask_message: Callable[[Room, int], None],
    ) -> None:
        self.workspace_id = workspace_id
        self.primed = False
        self.last_number = 0
        self.live: dict[int, LiveMessage] = {}
        self.native: set[NativeReader] = set()
        self.v1: set[V1Reader] = set()
        self._producers = producers  # open messages that this very process writes
        self._early: dict[int, Recorded] = {}  # events that came before their predecessors
        self._held: list[Delta] = []  # deltas that wait for an event or a repair
        self._items: list[Item] = []
        self._finals: list[bytes] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._replies: dict[str, Mapping[str, Any]] = {}  # the newest of each running session
        self._changed: set[int] = set()
        self._outputs: dict[tuple[str, str], Output] = {}  # the newest of what runs, not told yet
        self._ask_events = ask_events
        self._ask_message = ask_message
        loop = asyncio.get_running_loop()
        self._native_pace = Pace(loop, self.flush_native)
        self._v1_pace = Pace(loop, self.flush_v1)
        self._output_pace = Pace(loop, self.flush_outputs)

    def readers(self) -> list[NativeReader | V1Reader]:
        return [*self.native, *self.v1]

    @property
    def is_empty(self) -> bool:
        return not self.native and not self.v1

    def patience(self) -> float:
        """For how many seconds new words may wait until they are told."""
        if self.native:
            return PROMPT_SECONDS
        return V1_PATIENCE_SECONDS if self.v1 else UNREAD_SECONDS

    # -- what comes in

    def prime(self, last_number: int, live: Mapping[int, LiveMessage]) -> None:
        """Begins at this state of the log; what arrived meanwhile is judged against it."""
        self.last_number = last_number
        self.live = {number: self._producers.get(number, row) for number, row in live.items()}
        self.primed = True
        self._drain()
        if self._early:
            self._ask_events(self)

    def publish(self, event: Recorded) -> None:
        if event.number <= self.last_number and self.primed:
            return
        self._early[event.number] = event
        if not self.primed:
            return
        self._drain()
        if self._early:
            self._ask_events(self)

    def stream(self, delta: Delta) -> None:
        if not self.primed or delta.number > self.last_number:
            self._hold(delta)
            return
        live = self.live.get(delta.number)
        if live is None:
            return  # its message has finished
        outcome, new = live.apply(delta)
        if outcome is Applied.NEW:
            self._pass_on(new, live)
        elif outcome is Applied.GAP:
            self._hold(delta)
            self._ask_message(self, delta.number)

    def passed(self, delta: Delta) -> None:
        """A delta that the shared open message has already taken in."""
        live = self.live.get(delta.number)
        if live is not None and self.primed:
            self._pass_on(delta, live)

    def output(self, output: Output) -> None:
        """What a tool or a user's command has printed so far."""
        if not self.primed:
            return
        if not output.call_id:
            number = self._number_of(output.message_id)
            if number is None:
                return  # it has ended, or its start is still on its way
            self.live[number].show_output(output.text)
            if self.v1:
                self._changed.add(number)
                self._v1_pace.soon(self._v1_interval(self.live[number].size))
        if self.native:
            self._outputs[output.message_id, output.call_id] = output
            self._output_pace.soon(OUTPUT_SECONDS + len(self.native) * 0.0003)

    def repair(self, row: LiveMessage) -> None:
        """The open message as its row has it, after words went missing on the way here."""
        have = self.live.get(row.number)
        if have is None or not row.covers(have):
            return
        self.live[row.number] = row
        progress = self._progress(row)
        for reader in self.native:
            self._offer_progress(reader, progress)
        self._changed.add(row.number)
        self._v1_pace.soon(0)
        held, self._held = self._held, []
        for delta in held:
            self.stream(delta)

    async def wait_for_next(self) -> None:
        """Returns after the next event, or after a moment."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(waiter, 0.2)

    def waits_for(self, number: int) -> bool:
        return any(delta.number == number for delta in self._held)

    def _drain(self) -> None:
        while (event := self._early.pop(self.last_number + 1, None)) is not None:
            self._apply(event)
        for number in [number for number in self._early if number <= self.last_number]:
            del self._early[number]
        if self._held:
            held, self._held = self._held, []
            for delta in held:
                self.stream(delta)

    def _hold(self, delta: Delta) -> None:
        if len(self._held) < HELD_LIMIT:
            self._held.append(delta)

    def _apply(self, event: Recorded) -> None:
        self.last_number = event.number
        self._wake_waiters()
        brief = self._follow(event)
        if self.native:
            self._items.append(brief)
            self._native_pace.soon(0)
        if self.v1:
            finals = v1_frames.frames_of(event, reply=self._reply_of(event))
            if finals:
                self._finals.append(finals)
                self._v1_pace.soon(0)
            if event.kind == Kind.WORKSPACE_CLOSED:
                # Its clients have no workspace any more: their streams end with what is pending.
                self.flush_v1()
                for v1_reader in self.v1:
                    v1_reader.close()

    def _follow(self, event: Recorded) -> Recorded:
        """Keeps the open messages up to date; returns the event as native readers need it."""
        if event.kind in STARTING:
            message = event.payload["message"]
            self._forget(message["id"])
            self.live[event.number] = self._producers.get(event.number) or LiveMessage(
                event.number, message
            )
        elif event.kind == Kind.MESSAGE_CREATED:
            self._end_outputs(event.payload["message"])
        elif event.kind in CLOSING:
            self._end_outputs(event.payload["message"])
            live = self._forget(event.payload["message"]["id"])
            if live is not None and self.native:
                return native_frames.without_known_words(event, live)
        elif event.kind == Kind.SESSION_DELETED:
            self._forget_session(event.payload["session"]["id"])
        return event

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def adopt(self, live: LiveMessage) -> None:
        """Shares an open message that this process has begun to write."""
        if live.number in self.live:
            self.live[live.number] = live

    def _reply_of(self, event: Recorded) -> Mapping[str, Any] | None:
        """For a run's end the reply before it, which is told in the same transaction."""
        if event.kind == Kind.RUN_FINISHED:
            return self._replies.pop(event.session_id, None)
        message = event.payload.get("message")
        if message is not None and message["role"] == "assistant":
            self._replies[event.session_id] = message
        return None

    def _number_of(self, message_id: str) -> int | None:
        for number, live in self.live.items():
            if live.message["id"] == message_id:
                return number
        return None

    def _end_outputs(self, message: Mapping[str, Any]) -> None:
        """What was told while a tool or a command ran must not follow its end."""
        for key in ended_by(message, self._outputs):
            del self._outputs[key]
        for reader in self.native:
            reader.end_outputs(message)

    def _forget(self, message_id: str) -> LiveMessage | None:
        for number, live in self.live.items():
            if live.message["id"] == message_id:
                return self.live.pop(number)
        return None

    def _forget_session(self, session_id: str) -> None:
        for number in [
            n for n, live in self.live.items() if live.message["session_id"] == session_id
        ]:
            del self.live[number]

    # -- what goes out

    def _pass_on(self, delta: Delta, live: LiveMessage) -> None:
        if self.native:
            self._items.append(delta)
            self._native_pace.soon(self._native_interval())
        if self.v1:
            self._changed.add(delta.number)
            self._v1_pace.soon(self._v1_interval(live.size))

    def _native_interval(self) -> float:
        # A write to a socket costs about 0.03 ms: leave half of the time to the rest.
        return min(0.25, NATIVE_SECONDS + len(self.native) * 0.00006)

    def _v1_interval(self, size: int) -> float:
        """For a message of so many characters: each time it is sent whole."""
        readers = len(self.v1)
        if size * readers > 64_000 or size > 16_000:
            return min(0.5, max(V1_SECONDS + readers * 0.00006, 0.033))
        return min(0.5, V1_SECONDS + readers * 0.00006)

    def flush_native(self) -> None:
        items, self._items = self._items, []
        if not items or not self.native:
            return
        number = max((i.number for i in items if isinstance(i, Recorded)), default=0)
        wires = {reader.wire for reader in self.native}
        sse = native_frames.sse_batch(items) if Wire.SSE in wires else b""
        ws = native_frames.ws_batch(items) if Wire.WS in wires else b""
        for reader in self.native:
            reader.offer(sse if reader.wire is Wire.SSE else ws, number)

    def flush_outputs(self) -> None:
        outputs, self._outputs = self._outputs, {}
        if not outputs or not self.native:
            return
        self.flush_native()  # what began before
        wires = {reader.wire for reader in self.native}
        for key, output in outputs.items():
            sse = native_frames.sse_output(output) if Wire.SSE in wires else b""
            ws = native_frames.ws_output(output) if Wire.WS in wires else b""
            for reader in self.native:
                reader.offer_output(key, sse if reader.wire is Wire.SSE else ws)

    def flush_v1(self) -> None:
        finals, self._finals = b"".join(self._finals), []
        changed, self._changed = self._changed, set()
        if not self.v1:
            return
        batch = self.v1_batch(finals, changed)
        for reader in self.v1:
            reader.offer(finals, changed, batch)

    def v1_batch(self, finals: bytes, changed: set[int]) -> bytes:
        """What is final, then the newest state of what has changed and is still open."""
        return finals + b"".join([self.v1_state(number) for number in sorted(changed)])

    def v1_state(self, number: int) -> bytes:
        """An open message's newest state, encoded once; empty when it is open no more."""
        live = self.live.get(number)
        if live is None:
            return b""
        if live.encoded is None:
            live.encoded = v1_frames.open_message_frame(live.json())
        return live.encoded

    # -- who listens

    def join_native(self, reader: NativeReader) -> list[dict[str, Any]]:
        """From now on the reader gets what follows ``last_number``; returns the open messages."""
        self.flush_native()
        self.native.add(reader)
        return [self._progress(live) for live in self.live.values()]

    def join_v1(self, reader: V1Reader) -> None:
        self.flush_v1()
        self.v1.add(reader)
        reader.offer(b"", set(self.live))

    def leave(self, reader: NativeReader | V1Reader) -> None:
        reader.close()
        if isinstance(reader, NativeReader):
            self.native.discard(reader)
        else:
            self.v1.discard(reader)

    def close(self) -> None:
        self._native_pace.stop()
        self._v1_pace.stop()
        self._output_pace.stop()
        for reader in self.readers():
            self.leave(reader)

    def _progress(self, live: LiveMessage) -> dict[str, Any]:
        return {"number": live.number, "message": live.to_wire()}

    def _offer_progress(self, reader: NativeReader, progress: dict[str, Any]) -> None:
        self.flush_native()
        if reader.wire is Wire.SSE:
            reader.offer(native_frames.sse_stream_only(StreamOnly.PROGRESS, progress), 0)
        else:
            body = native_frames.stream_only_json(StreamOnly.PROGRESS, progress)
            reader.offer(native_frames.ws_one(body), 0)
