"""The bounded queues of readers: what each has still to be sent.

A native reader has a cursor: when its queue overflows, it gets an event that requires it to resume,
and costs nothing more. A ``/v1`` reader has none: its queue keeps every final event and, of each
open message, only that it changed; the newest state is sent when its socket can take it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from workspaces.delivery import native_frames, v1_frames
from workspaces.delivery.tool_output import ended_by

if TYPE_CHECKING:
    from workspaces.delivery.v1_outbox import V1Outbox

QUEUE_LIMIT_BYTES = 1_048_576


class Wire(Enum):
    """The transports of native readers."""

    SSE = native_frames.SseFrames()
    WS = native_frames.WsFrames()

    def __init__(self, frames: native_frames.Frames) -> None:
        self.frames = frames


class NativeReader:
    """One native stream's queue of encoded batches."""

    def __init__(self, wire: Wire, *, limit: int = QUEUE_LIMIT_BYTES) -> None:
        self.frames = wire.frames
        self.overflowed = False
        self.closed = False
        self._limit = limit
        self._queue: deque[tuple[bytes, int]] = deque()
        self._size = 0
        self._outputs: dict[tuple[str, str], bytes] = {}  # the newest of what runs
        self._wake = asyncio.Event()

    def offer_output(self, key: tuple[str, str], chunk: bytes) -> None:
        """Replaces what waits of the same tool or command: a slow socket gets fewer."""
        if not (self.overflowed or self.closed):
            self._outputs[key] = chunk
            self._wake.set()

    def end_outputs(self, message: Mapping[str, Any]) -> None:
        """What has ended says it all itself."""
        for key in ended_by(message, self._outputs):
            del self._outputs[key]

    def offer(self, chunk: bytes, number: int) -> None:
        """``number`` is the newest event in the chunk, 0 if it holds only deltas."""
        if self.closed:
            return
        self._queue.append((chunk, number))
        self._size += len(chunk)
        if self._size > self._limit:
            self.overflowed = True
            self._queue.clear()
            self._outputs.clear()
        self._wake.set()

    def beat(self) -> None:
        if not self._queue:
            self.offer(self.frames.heartbeat, 0)

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    async def take(self) -> list[tuple[bytes, int]]:
        """Waits for something to send. Empty when the reader overflowed or was closed."""
        while not self._queue and not self._outputs and not self.overflowed and not self.closed:
            self._wake.clear()
            await self._wake.wait()
        taken = [*self._queue, *((chunk, 0) for chunk in self._outputs.values())]
        self._queue.clear()
        self._outputs.clear()
        self._size = 0
        return taken


class V1Reader:
    """One ``/v1`` stream's pending envelopes.

    What comes while it waits and its socket has room is pushed at once: nobody is woken.
    """

    def __init__(self, push: Callable[[bytes], bool] | None = None) -> None:
        self.closed = False
        self._push = push
        self._is_waiting = False
        self._finals: list[bytes] = []
        self._changed: set[int] = set()
        self._batch: bytes | None = None
        self._wake = asyncio.Event()

    def offer(self, finals: bytes, changed: set[int], batch: bytes | None = None) -> None:
        """``batch``: all of it, encoded for everybody; it goes to who waits for nothing else."""
        if self.closed:
            return
        if self._finals or self._changed:
            self._batch = None
        elif batch and self._is_waiting and self._push is not None and self._push(batch):
            return
        else:
            self._batch = batch
        if finals:
            self._finals.append(finals)
        self._changed |= changed
        self._wake.set()

    def beat(self) -> None:
        if not self._finals and not self._changed:
            self.offer(v1_frames.HEARTBEAT, set())

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    async def take(self, outbox: V1Outbox) -> bytes:
        """Waits for something to send; empty when the reader was closed."""
        while True:
            while not self._finals and not self._changed:
                if self.closed:
                    return b""
                self._wake.clear()
                self._is_waiting = True
                try:
                    await self._wake.wait()
                finally:
                    self._is_waiting = False
            chunks, self._finals = self._finals, []
            changed, self._changed = self._changed, set()
            batch, self._batch = self._batch, None
            if batch is None:
                batch = outbox.batch(b"".join(chunks), changed)
            if batch:
                return batch
