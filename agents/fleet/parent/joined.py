"""Remote workers that have connected to this process, and the frames of their connections.

A remote worker is a child that dials its parent: each of its connections serves one folder and
performs one run at a time, with the same frames as a child that listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.fleet.parent.connection import MOST_FRAME_BYTES
from agents.fleet.parent.errors import ChildConnectionLost, ChildUnresponsive, FrameTooLarge
from agents.fleet.wire.codec import read_child_frame, write_frame
from agents.fleet.wire.frames import ChildFrame, ParentFrame

SEND_SECONDS: Final = 30.0
UNREAD_FRAMES: Final = 64
UNREAD_BYTES: Final = 4 * 1024 * 1024  # above it the worker waits; one frame may be larger
PARSED_HERE_CHARS: Final = 64_000  # a longer frame is parsed in a thread
WITHDRAWN: Final = 4401  # as for the streams of those who have lost their right

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WorkerHello:
    """What a remote worker announces with each connection."""

    name: str
    instance: str  # random, for each start of its process
    roots: Sequence[str]  # the names of its folders
    capacity: int  # how many connections it opens for each of them


class _Changes:
    """Wakes all who wait for the next change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def note(self) -> None:
        waiting, self._event = self._event, asyncio.Event()
        waiting.set()


class JoinedConnection:
    """The server's end of a socket that a remote worker has opened.

    The socket's application calls ``receive`` and ``disconnected``, ``RemoteWorkers`` calls
    ``begin_work`` and ``end_work``, and a run calls the rest.
    """

    def __init__(self, send: Send, *, path: str, hello: WorkerHello) -> None:
        self.path = path
        self.hello = hello
        self._send = send
        self._unread: deque[str] = deque()
        self._unread_bytes = 0
        self._work: object | None = None  # another object for each run
        self._is_over = False
        self._changes = _Changes()

    @property
    def is_open(self) -> bool:
        return not self._is_over

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
        while not self._unread:
            if self._is_over:
                return None
            await self._changes.wait()
        text = self._unread.popleft()
        self._unread_bytes -= sys.getsizeof(text)
        self._changes.note()
        if len(text) <= PARSED_HERE_CHARS:
            return read_child_frame(text)
        return await asyncio.to_thread(read_child_frame, text)

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
        """Queues a message of the run; waits while the run has many unread ones.

        Drops what comes between two runs: the next one would read it as its own.
        """
        work = self._work
        while self._is_full and self.is_open and self._work is work:
            await self._changes.wait()
        if work is not None and self._work is work and self.is_open:
            self._unread.append(text)
            self._unread_bytes += sys.getsizeof(text)
            self._changes.note()

    def disconnected(self) -> None:
        """Ends the reading of the run, after what has arrived."""
        self._is_over = True
        self._changes.note()

    @property
    def _is_full(self) -> bool:
        return len(self._unread) >= UNREAD_FRAMES or self._unread_bytes >= UNREAD_BYTES

    # -- for the connections of the process

    def begin_work(self) -> None:
        """Accepts messages from now on."""
        self._work = object()

    def end_work(self) -> None:
        """Accepts no messages until the next run, and drops the unread ones."""
        self._work = None
        self._unread.clear()
        self._unread_bytes = 0
        self._changes.note()


class RemoteWorkers:
    """The connections of the remote workers of this process, each free or at work."""

    def __init__(self, *, on_free: Callable[[], None]) -> None:
        """``on_free`` is called when a connection has become free: prompts may wait for it."""
        self._all: set[JoinedConnection] = set()
        self._free: dict[str, deque[JoinedConnection]] = {}  # by path
        self._waiting: Counter[str] = Counter()  # runs, by path
        self._changes = _Changes()
        self._on_free = on_free

    @property
    def free_places(self) -> Mapping[str, int]:
        """The paths of the workspaces whose runs can be performed now, with how many of them."""
        free = {
            path: sum(connection.is_open for connection in found) - self._waiting[path]
            for path, found in self._free.items()
        }
        return {path: places for path, places in free.items() if places > 0}

    def connections_of(self, name: str) -> list[JoinedConnection]:
        return [connection for connection in self._all if connection.hello.name == name]

    def join(self, connection: JoinedConnection) -> None:
        self._all.add(connection)
        self.give_back(connection)

    def leave(self, connection: JoinedConnection) -> None:
        """Forgets a connection whose socket is closed."""
        self._all.discard(connection)
        free = self._free.get(connection.path, deque())
        if connection in free:
            free.remove(connection)
        if not free:
            self._free.pop(connection.path, None)
        self._changes.note()

    async def take(self, path: str) -> JoinedConnection | None:
        """Returns a free connection, which ``give_back`` must get; waits while all are at work.

        ``None`` if the path's worker is no longer connected.
        """
        while any(connection.path == path for connection in self._all):
            free = self._free.get(path)
            while free:
                connection = free.popleft()
                if connection.is_open:
                    connection.begin_work()
                    return connection
            self._waiting[path] += 1
            try:
                await self._changes.wait()
            finally:
                self._waiting -= Counter([path])  # keeps no path without a run
        return None

    def give_back(self, connection: JoinedConnection) -> None:
        """Makes a connection free for the next run."""
        connection.end_work()
        if connection in self._all and connection.is_open:
            self._free.setdefault(connection.path, deque()).append(connection)
        self._changes.note()
        self._on_free()
