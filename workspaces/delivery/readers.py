"""The bounded queues of readers.

A native reader has a cursor: when its queue overflows, the queue is cleared and the client gets an
event that makes it resume. A ``/v1`` reader has none: its queue keeps every final event, but only
the numbers of changed open messages; their newest state is sent when its socket accepts it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from workspaces.delivery import native_frames, v1_frames
from workspaces.delivery.tool_output import ended_by
from workspaces.measuring import Measured, measure

QUEUE_LIMIT_BYTES = 1_048_576


class Wire(Enum):
    """The transports of native readers."""

    SSE = native_frames.SseFrames()
    WS = native_frames.WsFrames()

    def __init__(self, frames: native_frames.Frames) -> None:
        self.frames = frames


class NativeReader:
    """One native stream's queue of encoded batches."""

    def __init__(
        self,
        wire: Wire,
        push: Callable[[bytes], bool] | None = None,
        *,
        limit: int = QUEUE_LIMIT_BYTES,
    ) -> None:
        self.frames = wire.frames
        self.pushed = 0  # the number of the newest event that was pushed
        self._push = push
        self._is_waiting = False
        self.overflowed = False
        self.closed = False
        self._limit = limit
        self._queue: deque[tuple[bytes, int]] = deque()
        self._size = 0
        self._outputs: dict[tuple[str, str], bytes] = {}  # the newest output of each tool
        self._wake = asyncio.Event()

    def offer_output(self, key: tuple[str, str], chunk: bytes) -> None:
        """Replaces the queued output of the same tool, so that a slow socket gets fewer."""
        if not (self.overflowed or self.closed):
            self._outputs[key] = chunk
            self._wake.set()

    def end_outputs(self, message: Mapping[str, Any]) -> None:
        """Drops queued output of tools that this message ends, because it contains their result."""
        for key in ended_by(message, self._outputs):
            del self._outputs[key]

    def offer(self, chunk: bytes, number: int) -> None:
        """Queues a chunk; ``number`` is that of its newest event, 0 if it has only deltas."""
        if self.closed or self.overflowed:
            return
        if self._is_waiting and self._push is not None and self._is_empty and self._push(chunk):
            self.pushed = number or self.pushed
            return
        self._queue.append((chunk, number))
        self._size += len(chunk)
        if self._size > self._limit:
            self.overflowed = True
            measure(Measured.READER_OVERFLOW)
            self._queue.clear()
            self._outputs.clear()
        self._wake.set()

    def beat(self) -> None:
        if not self._queue:
            self.offer(self.frames.heartbeat, 0)

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    @property
    def _is_empty(self) -> bool:
        return not self._queue and not self._outputs

    async def take(self) -> list[tuple[bytes, int]]:
        """Waits for chunks and returns them; returns none after an overflow or a close."""
        while self._is_empty and not self.overflowed and not self.closed:
            self._wake.clear()
            self._is_waiting = True
            try:
                await self._wake.wait()
            finally:
                self._is_waiting = False
        taken = [*self._queue, *((chunk, 0) for chunk in self._outputs.values())]
        self._queue.clear()
        self._outputs.clear()
        self._size = 0
        return taken


class V1Reader:
    """One ``/v1`` stream's pending envelopes.

    While its task waits and its socket accepts more, a batch is pushed without waking the task.
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
        """Queues frames and changes; ``batch`` is both, encoded, for a reader without backlog."""
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

    async def take(self, encode: Callable[[bytes, set[int]], bytes]) -> bytes:
        """Waits for frames and returns them; returns ``b""`` after a close.

        ``encode`` adds the newest states of the changed open messages to final frames.
        """
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
                batch = encode(b"".join(chunks), changed)
            if batch:
                return batch
