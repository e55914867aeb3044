"""What waits for the next write to a room's native readers.

Events and deltas wait in order. Of each running tool only the newest output waits, and is sent less
often. Each batch is encoded once for each wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from workspaces.delivery import native_frames
from workspaces.delivery.native_frames import Frames, Item
from workspaces.delivery.open_message import LiveMessage
from workspaces.delivery.readers import NativeReader
from workspaces.delivery.throttle import Pace
from workspaces.delivery.tool_output import ended_by
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Delta, Output, StreamOnly

WORDS_SECONDS = 0.0015  # at least so long between two writes of words
OUTPUT_SECONDS = 0.1  # at most so often a reader is told of what runs


class NativeOutbox:
    """Whoever puts something in has looked whether there are ``readers``."""

    def __init__(self) -> None:
        self.readers: set[NativeReader] = set()
        self._set_intervals()
        self._items: list[Item] = []
        self._outputs: dict[tuple[str, str], Output] = {}  # the newest of what runs, not told yet
        loop = asyncio.get_running_loop()
        self._pace = Pace(loop, self.flush)
        self._output_pace = Pace(loop, self.flush_outputs)

    def add_words(self, delta: Delta) -> None:
        self._items.append(delta)
        self._pace.soon(self.interval)

    def add_event(self, event: RecordedEvent) -> None:
        self._items.append(event)
        self._pace.soon(0)

    def add_output(self, output: Output) -> None:
        self._outputs[output.message_id, output.call_id] = output
        self._output_pace.soon(self.output_interval)

    def end_outputs(self, message: Mapping[str, Any]) -> None:
        """What was told while a tool or a command ran must not follow its end."""
        for key in ended_by(message, self._outputs):
            del self._outputs[key]
        for reader in self.readers:
            reader.end_outputs(message)

    def tell_progress(self, live: LiveMessage) -> None:
        """An open message as it stands, after words went missing: behind all that came before."""
        self.flush()
        kind, progress = StreamOnly.PROGRESS, progress_of(live)
        encoded = {frames: frames.one(kind, progress) for frames in self._frames()}
        for reader in self.readers:
            reader.offer(encoded[reader.frames], 0)

    def flush(self) -> None:
        items, self._items = self._items, []
        if not items:
            return
        number = max((i.number for i in items if isinstance(i, RecordedEvent)), default=0)
        encoded = {frames: frames.batch(items) for frames in self._frames()}
        for reader in self.readers:
            reader.offer(encoded[reader.frames], number)

    def flush_outputs(self) -> None:
        outputs, self._outputs = self._outputs, {}
        self.flush()  # what began before
        wires = self._frames()
        for key, output in outputs.items():
            data = native_frames.output_data(output)
            encoded = {frames: frames.one(StreamOnly.OUTPUT, data) for frames in wires}
            for reader in self.readers:
                reader.offer_output(key, encoded[reader.frames])

    def _frames(self) -> set[Frames]:
        return {reader.frames for reader in self.readers}

    def join(self, reader: NativeReader) -> None:
        """From now on the reader gets what comes; what came before is not for it."""
        self.flush()
        self.readers.add(reader)
        self._set_intervals()

    def leave(self, reader: NativeReader) -> None:
        self.readers.discard(reader)
        self._set_intervals()

    def _set_intervals(self) -> None:
        # A write to a socket costs about 0.03 ms: leave half of the time to the rest.
        readers = len(self.readers)
        self.interval = min(0.25, WORDS_SECONDS + readers * 0.00006)
        self.output_interval = OUTPUT_SECONDS + readers * 0.0003


def progress_of(live: LiveMessage) -> dict[str, Any]:
    return {"number": live.number, "message": live.to_wire()}
