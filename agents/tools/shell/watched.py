"""A command's output as it grows, and the one who is told of it, at most so often."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_REPLACEMENTS = str.maketrans({"\0": "\N{REPLACEMENT CHARACTER}"})


def readable(raw: bytes) -> str:
    """Bytes as text that every store and client can take: no NUL, nothing undecodable."""
    return raw.decode("utf-8", errors="replace").translate(_REPLACEMENTS)


class BoundedOutput:
    def __init__(self, limit_bytes: int) -> None:
        self._head_size = limit_bytes // 2
        self._tail_size = limit_bytes - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    @property
    def full(self) -> bool:
        return self.total > self._head_size + self._tail_size

    def feed(self, chunk: bytes) -> bool:
        """Always true: a command that prints more than is kept runs on."""
        self.total += len(chunk)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if len(chunk) > self._tail_size:
            chunk = chunk[len(chunk) - self._tail_size :]
        self._tail += chunk
        # Cutting only at twice the size makes the copying rare.
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]
        return True

    def text(self, limit_bytes: int | None = None) -> str:
        """The output so far, saying in its middle how much was left out."""
        head_size, tail_size = self._head_size, self._tail_size
        if limit_bytes is not None and limit_bytes < head_size + tail_size:
            head_size, tail_size = limit_bytes // 2, limit_bytes - limit_bytes // 2
        if self.total <= head_size + tail_size:
            return readable(bytes(self._head) + bytes(self._tail))
        head = bytes(self._head[:head_size])
        # The end may still stand in the head alone, when less is shown than is kept.
        kept = self._tail if len(self._tail) >= tail_size else self._head + self._tail
        tail = bytes(kept[len(kept) - tail_size :])
        # Whole lines where there are any: half a line or character would mislead.
        cut = head.rfind(b"\n")
        head = head[: cut + 1] if cut > head_size // 2 else head
        cut = tail.find(b"\n")
        tail = tail[cut + 1 :] if 0 <= cut < tail_size // 2 else tail
        left_out = self.total - len(head) - len(tail)
        newline = "" if head.endswith(b"\n") else "\n"
        return f"{readable(head)}{newline}\n... {left_out:,} bytes left out ...\n\n{readable(tail)}"


class WatchedOutput:
    """A sink. Lives in one event loop; however much comes in, telling costs the same."""

    def __init__(self, limit_bytes: int) -> None:
        self.kept = BoundedOutput(limit_bytes)
        self._loop = asyncio.get_running_loop()
        self._tell: Callable[[], None] | None = None
        self._every = 0.0
        self._next_at = 0.0
        self._waiting: asyncio.TimerHandle | None = None

    def watch(self, tell: Callable[[], None], *, every_seconds: float) -> None:
        """From now on this one is told that there is more; who was told before is not."""
        self.unwatch()
        self._tell = tell
        self._every = every_seconds
        if self.kept.total:
            self._soon()

    def unwatch(self) -> None:
        self._tell = None
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def feed(self, chunk: bytes) -> bool:
        self.kept.feed(chunk)
        if self._waiting is None and self._tell is not None:
            self._soon()
        return True

    def _soon(self) -> None:
        delay = max(0.0, self._next_at - self._loop.time())
        self._waiting = self._loop.call_later(delay, self._tell_now)

    def _tell_now(self) -> None:
        self._waiting = None
        self._next_at = self._loop.time() + self._every
        if self._tell is not None:
            self._tell()
