"""What waits for the next write to a room's ``/v1`` readers.

Final frames wait here in order. Of each open message only the fact of a change waits, since its
newest state is sent whole. A state is encoded once for all readers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from workspaces.delivery import v1_frames
from workspaces.delivery.open_message import OpenMessages
from workspaces.delivery.readers import V1Reader
from workspaces.delivery.throttle import Pace
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Kind

# At least so long between two writes of words, which are of whole messages. Of 20 runs this
# gathers 9 words a write, for 4.5 ms of a word's way.
WORDS_SECONDS = 0.008
LONG_SECONDS = 0.033  # the same of a long message: each time it is sent whole
SHORT_SIZE = 16_000  # characters; longer ones are long
ALL_SHORT_SIZE = 64_000  # the same, counted once for each reader


class V1Outbox:
    """Whoever puts something in has looked whether there are ``readers``."""

    def __init__(self, live: OpenMessages) -> None:
        self.readers: set[V1Reader] = set()
        self._set_intervals()
        self._live = live
        self._finals: list[bytes] = []
        self._changed: set[int] = set()
        self._replies: dict[str, Mapping[str, Any]] = {}  # the newest of each running session
        self._pace = Pace(asyncio.get_running_loop(), self.flush)

    def add_change(self, number: int, size: int) -> None:
        """The open message of this number has changed; it has so many characters now."""
        self._changed.add(number)
        self._pace.soon(self.interval if size <= self.short_size else self.long_interval)

    def add_repaired(self, number: int) -> None:
        """The same after words went missing: it has waited long enough."""
        self._changed.add(number)
        self._pace.soon(0)

    def add_event(self, event: RecordedEvent) -> None:
        finals = v1_frames.frames_of(event, reply=self._reply_of(event))
        if finals:
            self._finals.append(finals)
            self._pace.soon(0)
        if event.kind == Kind.WORKSPACE_CLOSED:
            # Its clients have no workspace any more: their streams end with what is pending.
            self.flush()
            for reader in self.readers:
                reader.close()

    def _reply_of(self, event: RecordedEvent) -> Mapping[str, Any] | None:
        """For a run's end the reply before it, which is told in the same transaction."""
        if event.kind == Kind.RUN_FINISHED:
            return self._replies.pop(event.session_id, None)
        message = event.payload.get("message")
        if message is not None and message["role"] == "assistant":
            self._replies[event.session_id] = message
        return None

    def flush(self) -> None:
        finals, self._finals = b"".join(self._finals), []
        changed, self._changed = self._changed, set()
        if not self.readers:
            return
        batch = self.batch(finals, changed)
        for reader in self.readers:
            reader.offer(finals, changed, batch)

    def batch(self, finals: bytes, changed: set[int]) -> bytes:
        """What is final, then the newest state of what has changed and is still open."""
        return finals + b"".join([self.state(number) for number in sorted(changed)])

    def state(self, number: int) -> bytes:
        """An open message's newest state, encoded once; empty when it is open no more."""
        live = self._live.get(number)
        if live is None:
            return b""
        if live.encoded is None:
            live.encoded = v1_frames.open_message_frame(live.json())
        return live.encoded

    def join(self, reader: V1Reader) -> None:
        """From now on the reader gets what comes, after the open messages as they stand."""
        self.flush()
        self.readers.add(reader)
        self._set_intervals()
        reader.offer(b"", set(self._live))

    def leave(self, reader: V1Reader) -> None:
        self.readers.discard(reader)
        self._set_intervals()

    def _set_intervals(self) -> None:
        readers = len(self.readers)
        self.interval = min(0.5, WORDS_SECONDS + readers * 0.00006)
        self.long_interval = max(self.interval, LONG_SECONDS)
        self.short_size = min(SHORT_SIZE, ALL_SHORT_SIZE // max(readers, 1))
