"""Collects a command's output within a limit, and reports its growth at a limited rate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agents.tools.shell.kept import HeadAndTail
from workspaces.storable import storable_text


def readable(raw: bytes) -> str:
    """Decodes bytes and replaces NUL and invalid bytes, which stores and clients reject."""
    return storable_text(raw.decode("utf-8", errors="replace"))


class BoundedOutput(HeadAndTail):
    @property
    def full(self) -> bool:
        return self.total > self._head_size + self._tail_size

    def text(self, limit_bytes: int | None = None) -> str:
        """Returns the output so far, with a note in the middle on how much was left out."""
        head_size, tail_size = self._head_size, self._tail_size
        if limit_bytes is not None and limit_bytes < head_size + tail_size:
            head_size, tail_size = limit_bytes // 2, limit_bytes - limit_bytes // 2
        if self.total <= head_size + tail_size:
            return readable(bytes(self._head) + bytes(self._tail))
        head = bytes(self._head[:head_size])
        # With a small ``limit_bytes`` the end may still be in the head.
        kept = self._tail if len(self._tail) >= tail_size else self._head + self._tail
        tail = bytes(kept[len(kept) - tail_size :])
        # Prefer whole lines: half a line or character would mislead.
        cut = head.rfind(b"\n")
        head = head[: cut + 1] if cut > head_size // 2 else head
        cut = tail.find(b"\n")
        tail = tail[cut + 1 :] if 0 <= cut < tail_size // 2 else tail
        left_out = self.total - len(head) - len(tail)
        newline = "" if head.endswith(b"\n") else "\n"
        return f"{readable(head)}{newline}\n... {left_out:,} bytes left out ...\n\n{readable(tail)}"


class WatchedOutput:
    """A sink that notifies a watcher at a limited rate, however much output arrives.

    It belongs to one event loop.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.kept = BoundedOutput(limit_bytes)
        self._loop = asyncio.get_running_loop()
        self._notify: Callable[[], None] | None = None
        self._every = 0.0
        self._next_at = 0.0
        self._waiting: asyncio.TimerHandle | None = None

    def watch(self, notify: Callable[[], None], *, every_seconds: float) -> None:
        """Notifies ``notify`` of more output from now on; it replaces the previous watcher."""
        self.unwatch()
        self._notify = notify
        self._every = every_seconds
        if self.kept.total:
            self._soon()

    def unwatch(self) -> None:
        self._notify = None
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def feed(self, chunk: bytes) -> bool:
        self.kept.feed(chunk)
        if self._waiting is None and self._notify is not None:
            self._soon()
        return True

    def _soon(self) -> None:
        delay = max(0.0, self._next_at - self._loop.time())
        self._waiting = self._loop.call_later(delay, self._notify_now)

    def _notify_now(self) -> None:
        self._waiting = None
        self._next_at = self._loop.time() + self._every
        if self._notify is not None:
            self._notify()
