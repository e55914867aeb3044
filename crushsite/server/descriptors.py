"""Twisted's sockets in a loop that watches them badly: a selector of their own, inside it.

uvloop stops watching a descriptor whose peer has reset the connection, and tells nobody:
Twisted would keep a dead connection for ever. A selector reports such a descriptor as
ready, as Twisted expects, and the loop only watches the selector.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

Call = tuple[Callable[..., object], tuple[Any, ...]]


class DescriptorLoop:
    """What Twisted's asyncio reactor asks of a loop: descriptors here, the rest of ``loop``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._selector = selectors.DefaultSelector()
        self._calls: dict[int, dict[int, Call]] = {}  # by descriptor, by kind of event
        loop.add_reader(self._selector.fileno(), self._look)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)

    def close(self) -> None:
        """Watches nothing any more. The loop may be closed already."""
        if not self.loop.is_closed():
            self.loop.remove_reader(self._selector.fileno())
        self._selector.close()

    def add_reader(self, fd: int, call: Callable[..., object], *args: Any) -> None:
        self._watch(fd, selectors.EVENT_READ, (call, args))

    def add_writer(self, fd: int, call: Callable[..., object], *args: Any) -> None:
        self._watch(fd, selectors.EVENT_WRITE, (call, args))

    def remove_reader(self, fd: int) -> bool:
        return self._ignore(fd, selectors.EVENT_READ)

    def remove_writer(self, fd: int) -> bool:
        return self._ignore(fd, selectors.EVENT_WRITE)

    def _watch(self, fd: int, event: int, call: Call) -> None:
        calls = self._calls.get(fd, {})
        events = event | sum(calls)
        if calls:
            self._selector.modify(fd, events)
        else:
            self._selector.register(fd, events)
        self._calls[fd] = {**calls, event: call}

    def _ignore(self, fd: int, event: int) -> bool:
        calls = self._calls.get(fd, {})
        if event not in calls:
            return False
        rest = {kind: call for kind, call in calls.items() if kind != event}
        if rest:
            self._calls[fd] = rest
            self._selector.modify(fd, sum(rest))
        else:
            del self._calls[fd]
            self._selector.unregister(fd)
        return True

    def _look(self) -> None:
        for key, events in self._selector.select(0):
            for event in (selectors.EVENT_READ, selectors.EVENT_WRITE):
                # Asked anew: a call before may have ended this very descriptor.
                found = self._calls.get(key.fd, {}).get(event) if events & event else None
                if found is not None:
                    call, args = found
                    call(*args)
