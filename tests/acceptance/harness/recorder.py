"""A list that fills while a test waits on it: what every stream reader records into."""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class StreamEnded(AssertionError):
    """The stream ended while a test waited for more of it."""


class Recorder(Generic[T]):
    """Everything received, in order. `wait_for` looks at what came before the call too."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[T] = []
        self.ended: str | None = None  # why, once it has
        self._news = asyncio.Event()

    def add(self, item: T) -> None:
        self.items.append(item)
        self._news.set()

    def end(self, why: str) -> None:
        if self.ended is None:
            self.ended = why
        self._news.set()

    async def wait_for(
        self, predicate: Callable[[T], bool], timeout: float = 60, *, start: int = 0
    ) -> T:
        """The first item from index `start` on for which `predicate` holds."""
        deadline = time.monotonic() + timeout
        looked = start
        while True:
            while looked < len(self.items):
                item = self.items[looked]
                looked += 1
                if predicate(item):
                    return item
            if self.ended is not None:
                raise StreamEnded(f"{self.name} ended ({self.ended}); {self._tail()}")
            await self._more(deadline, "no such item")

    async def wait_count(self, count: int, timeout: float = 60) -> None:
        """Return when at least `count` items are here."""
        deadline = time.monotonic() + timeout
        while len(self.items) < count:
            if self.ended is not None:
                raise StreamEnded(f"{self.name} ended ({self.ended}); {self._tail()}")
            await self._more(deadline, f"{len(self.items)} of {count} items")

    async def wait_end(self, timeout: float = 60) -> str:
        """Return why the stream ended, when it has."""
        deadline = time.monotonic() + timeout
        while self.ended is None:
            await self._more(deadline, "it did not end")
        return self.ended

    async def _more(self, deadline: float, lack: str) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{self.name}: {lack} in time; {self._tail()}") from None

    def _tail(self) -> str:
        shown = "\n  ".join(str(item)[:400] for item in self.items[-12:])
        return f"{len(self.items)} items, the last:\n  {shown}"
