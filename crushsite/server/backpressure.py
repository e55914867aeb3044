"""Back pressure both ways.

``Flow``: whether a peer takes what is written to it. Writers wait; a peer that takes nothing at
all for the patience is cut off. A slow peer that takes a little each time is not.

``Inbox``: what a peer has sent and its application has not yet taken. Above the limits the socket
is not read any more, until half of it was taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from typing_extensions import override

logger = logging.getLogger(__name__)

LOOKS = 6  # how often within the patience we look for progress


class Flow:
    def __init__(
        self, transport: Any, *, patience_seconds: float, cut_off: Callable[[], None]
    ) -> None:
        self.is_full = False
        self._cut_off = cut_off
        self._transport = transport
        self._patience = patience_seconds
        self._loop = asyncio.get_running_loop()
        self._waiters: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._left = 0
        self._since = 0.0
        self._seen: tuple[int, float] | None = None  # what was unsent, and since when

    def pause(self) -> None:
        if not self.is_full:
            self.is_full = True
            self._since = self._loop.time()
            self._left = self._transport.unsent()
            self._look_later()

    def resume(self) -> None:
        """The buffer is empty, or the connection is gone: nobody waits any longer."""
        self.is_full = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def drained(self) -> None:
        while self.is_full:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def is_behind(self) -> bool:
        """Whether the peer has still to take what was sent, and is at it. To be asked repeatedly."""
        left, now = self._transport.unsent(), self._loop.time()
        if self._seen is None or left < self._seen[0]:
            self._seen = (left, now)
        return left > 0 and now - self._seen[1] < self._patience

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._patience / LOOKS, self._look)

    def _look(self) -> None:
        left = self._transport.unsent()
        if left < self._left:
            self._since = self._loop.time()
        elif self._loop.time() - self._since >= self._patience:
            logger.info("a connection took nothing for %d s and is closed", self._patience)
            self._timer = None
            self._cut_off()
            self.resume()
            return
        self._left = left
        self._look_later()


MESSAGES = 32
BYTES = 1024 * 1024


class Inbox(asyncio.Queue[dict[str, Any]]):
    """``transport`` is set by a protocol whose peer may send at any time."""

    transport: Any = None
    _held = 0
    _is_paused = False

    @override
    def _put(self, item: dict[str, Any]) -> None:
        super()._put(item)
        self._held += _size(item)
        if self.transport is not None and (self.qsize() > MESSAGES or self._held > BYTES):
            self._is_paused = True
            self.transport.pauseProducing()

    @override
    def _get(self) -> dict[str, Any]:
        item: dict[str, Any] = super()._get()
        self._held -= _size(item)
        if self._is_paused and self.qsize() <= MESSAGES // 2 and self._held <= BYTES // 2:
            self._is_paused = False
            self.transport.resumeProducing()
        return item


def _size(item: dict[str, Any]) -> int:
    return len(item.get("text") or item.get("bytes") or "")
