"""Remote workers that have connected to this process, and the frames of their connections.

A remote worker is a child that dials its parent: each of its connections serves one folder and
performs one run at a time, with the same frames as a child that listens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.fleet.parent.connection import MOST_FRAME_BYTES
from agents.fleet.parent.errors import ChildConnectionLost, ChildUnresponsive, FrameTooLarge
from agents.fleet.wire.codec import read_child_frame, write_frame
from agents.fleet.wire.frames import ChildFrame, ParentFrame

SEND_SECONDS: Final = 30.0
UNREAD_FRAMES: Final = 64
WITHDRAWN: Final = 4401  # as for the streams of those who have lost their right

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WorkerHello:
    """What a remote worker announces with each connection."""

    name: str
    instance: str  # random, for each start of its process
    roots: Sequence[str]  # the names of its folders
    capacity: int  # how many connections it opens for each of them


class JoinedConnection:
    """The server's end of a socket that a remote worker has opened.

    The socket's application calls ``receive`` and ``disconnected``; a run calls the rest.
    """

    def __init__(self, send: Send, *, path: str, hello: WorkerHello) -> None:
        self.path = path
        self.hello = hello
        self._send = send
        self._frames: asyncio.Queue[str | None] = asyncio.Queue(UNREAD_FRAMES)
        self._over = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return not self._over.is_set()

    async def send(self, frame: ParentFrame) -> None:
        """Sends a frame. Raises ``ChildConnectionLost``, ``FrameTooLarge``, ``ChildUnresponsive``."""
        data = write_frame(frame)
        if len(data) > MOST_FRAME_BYTES:
            raise FrameTooLarge
        if not self.is_open:
            raise ChildConnectionLost
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send({"type": "websocket.send", "text": data.decode()})
        except TimeoutError:
            raise ChildUnresponsive("The remote worker no longer reads its messages.") from None

    async def next_frame(self) -> ChildFrame | None:
        """Returns the next frame, or None after the end. Raises ``BadFrame``."""
        if self._over.is_set() and self._frames.empty():
            return None
        text = await self._frames.get()
        return None if text is None else read_child_frame(text)

    async def is_answering(self, *, within_seconds: float) -> bool:  # noqa: ARG002  as a child's
        """Whether it is connected: the server of the socket sends the pings."""
        return self.is_open

    async def close(self, code: int = 1000) -> None:
        """Closes the socket. Callable twice."""
        if self.is_open:
            self.disconnected()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SEND_SECONDS):
                    await self._send({"type": "websocket.close", "code": code})

    # -- for the socket's application

    async def receive(self, text: str) -> None:
        """Queues a message; waits while the run has many unread ones."""
        if not self._frames.full():
            self._frames.put_nowait(text)
            return
        putting = asyncio.ensure_future(self._frames.put(text))
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({putting, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()
            over.cancel()

    def disconnected(self) -> None:
        """Ends the reading of the run, after what has arrived."""
        self._over.set()
        with contextlib.suppress(asyncio.QueueFull):  # then the reader finds `_over` set
            self._frames.put_nowait(None)

    def drop_unread(self) -> None:
        """Drops what came between two runs."""
        while self.is_open and not self._frames.empty():
            self._frames.get_nowait()


class RemoteWorkers:
    """The connections of the remote workers of this process, each free or at work."""

    def __init__(self, *, on_join: Callable[[], None]) -> None:
        """``on_join`` is called when a connection has joined: prompts may wait for it."""
        self._all: set[JoinedConnection] = set()
        self._free: dict[str, deque[JoinedConnection]] = {}  # by path
        self._changed = asyncio.Event()
        self._on_join = on_join

    @property
    def paths(self) -> tuple[str, ...]:
        """The workspaces whose runs can be performed now."""
        return tuple(sorted({connection.path for connection in self._all}))

    def connections_of(self, name: str) -> list[JoinedConnection]:
        return [connection for connection in self._all if connection.hello.name == name]

    def join(self, connection: JoinedConnection) -> None:
        self._all.add(connection)
        self.give_back(connection)
        self._on_join()

    def leave(self, connection: JoinedConnection) -> None:
        """Forgets a connection whose socket is closed."""
        self._all.discard(connection)
        self._wake()

    async def take(self, path: str) -> JoinedConnection | None:
        """Returns a free connection, which ``give_back`` must get; waits while all are at work.

        ``None`` if the path's worker is no longer connected.
        """
        while any(connection.path == path for connection in self._all):
            free = self._free.get(path)
            while free:
                connection = free.popleft()
                if connection in self._all and connection.is_open:
                    connection.drop_unread()
                    return connection
            await self._changed.wait()
        return None

    def give_back(self, connection: JoinedConnection) -> None:
        """Makes a connection free for the next run."""
        if connection in self._all:
            self._free.setdefault(connection.path, deque()).append(connection)
        self._wake()

    def _wake(self) -> None:
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()
