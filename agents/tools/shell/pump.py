"""Reads a command's output off a pipe as it comes, into a sink.

On the event loop and never blocking it: after the first part of a flood it
reads a big piece at a time with pauses, so that a command printing gigabytes
costs its own time and little of the loop's. Knows no process.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from typing import Protocol

_CHUNK = 64 * 1024
_FLOOD_AFTER = 1024 * 1024
_FLOOD_CHUNK = 1024 * 1024
_FLOOD_READS = 64
_FLOOD_PAUSE_SECONDS = 0.003


class _Sink(Protocol):
    def feed(self, chunk: bytes) -> bool: ...


class Pump:
    def __init__(self, descriptor: int, sink: _Sink) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._read = 0
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False
        self.drained = asyncio.Event()  # nobody can write any more
        self.enough = asyncio.Event()  # the sink wants no more

    def start(self) -> None:
        if not self._closed and not self.drained.is_set():
            self._pause = None
            self._loop.add_reader(self._descriptor, self._on_readable)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._pause is not None:
                self._pause.cancel()
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self.drained.set()

    def _on_readable(self) -> None:
        flood = self._read > _FLOOD_AFTER
        try:
            chunk = self._next(flood=flood)
        except (BlockingIOError, InterruptedError):
            return
        if not chunk or self.enough.is_set():
            self._loop.remove_reader(self._descriptor)
            self.drained.set()
            return
        before, self._read = self._read, self._read + len(chunk)
        if not self._sink.feed(chunk):
            self.enough.set()
        if flood:
            self._loop.remove_reader(self._descriptor)
            self._pause = self._loop.call_later(_FLOOD_PAUSE_SECONDS, self.start)
        elif before <= _FLOOD_AFTER < self._read and hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _FLOOD_CHUNK)

    def _next(self, *, flood: bool) -> bytes:
        """Empty at the end. Raises ``BlockingIOError`` when there is nothing yet."""
        chunks: list[bytes] = []
        while True:
            try:
                chunk = os.read(self._descriptor, _FLOOD_CHUNK if flood else _CHUNK)
            except (BlockingIOError, InterruptedError):
                if not chunks:
                    raise
                break
            except OSError:  # a terminal's way to say that nobody can write any more
                chunk = b""
            if chunk:
                chunks.append(chunk)
            # A terminal gives a page at a time: a pause after each would slow its command down.
            if not (chunk and flood) or len(chunk) >= _CHUNK or len(chunks) >= _FLOOD_READS:
                break
        return b"".join(chunks)
