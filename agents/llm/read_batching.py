"""When many replies stream at once, what has come of all of them is read together.

A word that is read alone is dear: the process wakes, and meets caches that others have
used since. So beyond a few streams each is looked at in turns, a few milliseconds apart,
no longer than whoever reads the words has to wait for them anyway. A few streams are
read as their bytes come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol
from weakref import WeakKeyDictionary

MANY = 8
SHORTEST_SECONDS = 0.002


class Body(Protocol):
    def readany(self) -> Coroutine[asyncio.Future[Any], None, bytes]: ...


class Gathering:
    """Of one event loop. ``patience`` says how far apart the turns may be."""

    def __init__(self, patience: Callable[[], float]) -> None:
        self.streams = 0  # open ones; kept by whoever opens and closes them
        self._patience = patience
        self._waiting: list[tuple[asyncio.Future[Any], asyncio.Future[None]]] = []
        self._next: asyncio.Handle | None = None
        self._listened: set[asyncio.Future[Any]] = set()  # those that wake us when they arrive

    async def read(self, body: Body) -> bytes:
        """As ``body.readany``: some bytes, none at its end, or its error."""
        if self.streams < MANY:
            return await body.readany()
        # Its steps are done by hand, so that bytes that come wake nobody: their turn does.
        reading = body.readany()
        try:
            while True:
                try:
                    arrived = reading.send(None)
                except StopIteration as read:
                    data: bytes = read.value
                    return data
                await self._turn_with(arrived)
        finally:
            reading.close()

    async def _turn_with(self, arrived: asyncio.Future[Any]) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append((arrived, turn))
        if self._next is None:
            self._next = loop.call_later(self._patience(), self._take_turns)
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting = [pair for pair in self._waiting if pair[1] is not turn]
            self._listened.discard(arrived)
            raise

    def _take_turns(self) -> None:
        before, self._waiting = self._waiting, []
        for waiting in before:
            arrived, turn = waiting
            if not arrived.done():
                self._waiting.append(waiting)
            elif not turn.done():  # else whoever waited has been cancelled
                turn.set_result(None)
        self._next = None
        if len(self._waiting) == len(before):
            self._rest()
        elif self._waiting:
            loop = asyncio.get_running_loop()
            self._next = loop.call_later(self._patience(), self._take_turns)

    def _rest(self) -> None:
        """Nothing came: models think. No turn is taken until the next bytes, and then at once."""
        for arrived, _ in self._waiting:
            if arrived not in self._listened:
                self._listened.add(arrived)
                arrived.add_done_callback(self._wake)

    def _wake(self, arrived: asyncio.Future[Any]) -> None:
        self._listened.discard(arrived)
        if self._next is None and self._waiting:
            self._next = asyncio.get_running_loop().call_soon(self._take_turns)


_gatherings: WeakKeyDictionary[asyncio.AbstractEventLoop, Gathering] = WeakKeyDictionary()


def _as_short_as_useful() -> float:
    return SHORTEST_SECONDS


_patience: Callable[[], float] = _as_short_as_useful


def gathering_here() -> Gathering:
    """The running loop's."""
    loop = asyncio.get_running_loop()
    gathering = _gatherings.get(loop)
    if gathering is None:
        gathering = _gatherings[loop] = Gathering(lambda: _patience())
    return gathering


def let_readers_set_the_pace(patience: Callable[[], float]) -> None:
    """``patience``: for how long words may wait here, as those who read them have it now."""
    global _patience
    _patience = patience
