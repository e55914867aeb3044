"""Whether a connection takes what is written to it.

Told by the transport that its buffer is full or has drained. Writers wait; a
peer that takes nothing at all for the patience is cut off. A slow peer that
takes a little each time is not.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import struct
import termios
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

LOOKS = 6  # how often within the patience we look for progress


def write_now(transport: Any, data: bytes) -> None:
    """Writes without waiting for the loop to say that the socket is ready: mostly it is.

    Saves a turn of the loop, and two changes of what it watches.
    """
    if transport.connected and not (transport.dataBuffer or transport._tempDataBuffer):
        sent = transport.writeSomeData(data)
        if isinstance(sent, int) and sent >= 0:  # else the transport meets the error itself
            if sent == len(data):
                return
            data = data[sent:]
    transport.write(data)


class Flow:
    __slots__ = (
        "_cut_off",
        "_left",
        "_loop",
        "_patience",
        "_seen",
        "_since",
        "_timer",
        "_transport",
        "_waiters",
        "is_full",
    )

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
            self._left = self._unsent()
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
        left, now = self._unsent(), self._loop.time()
        if self._seen is None or left < self._seen[0]:
            self._seen = (left, now)
        return left > 0 and now - self._seen[1] < self._patience

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._patience / LOOKS, self._look)

    def _look(self) -> None:
        left = self._unsent()
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

    def _unsent(self) -> int:
        transport = self._transport
        ours: int = len(transport.dataBuffer) - transport.offset + transport._tempDataLen
        return ours + _in_kernel(transport)


def _in_kernel(transport: Any) -> int:
    """What the kernel holds for the peer: it takes our next bytes only after much of that."""
    try:
        answer = fcntl.ioctl(transport.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
    except OSError:
        return 0  # not on this system: then progress is seen more coarsely
    return int(struct.unpack("i", answer)[0])
