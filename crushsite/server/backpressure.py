"""Back pressure both ways: ``Flow`` to the peer, ``Inbox`` to the application."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from typing_extensions import override


class Flow:
    """Whether a peer takes what is written to it.

    Writers wait. A peer that takes nothing at all for the patience is stuck; a slow peer that takes
    a little each time is not.
    """

    def __init__(self, unsent: Callable[[], int], patience_seconds: float) -> None:
        self.is_full = False
        self._unsent = unsent
        self._patience = patience_seconds
        self._left, self._since = 0, time.monotonic()
        self._waiters: list[asyncio.Future[None]] = []

    def pause(self) -> None:
        self.is_full = True
        self._left, self._since = self._unsent(), time.monotonic()

    def resume(self) -> None:
        """The buffer is empty, or the connection is gone: nobody waits any longer."""
        self.is_full = False
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def drained(self) -> None:
        while self.is_full:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def is_stuck(self) -> bool:
        """To be called repeatedly while the peer has something to take."""
        left, now = self._unsent(), time.monotonic()
        if left != self._left:
            self._left, self._since = left, now
        return now - self._since >= self._patience


MESSAGES = 32
BYTES = 1024 * 1024


class Inbox(asyncio.Queue[dict[str, Any]]):
    """What a peer has sent and its application has not taken.

    Above the limits the socket is not read, until half of it was taken. ``transport`` is set by a
    protocol whose peer may send at any time.
    """

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
