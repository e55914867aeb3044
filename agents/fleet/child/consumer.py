"""A child behind a route of the server: for parents that dial in with a token.

The same conversation as a spawned child's. Anybody without the token is told
nothing; the token is neither stored, logged nor repeated.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from typing_extensions import override

from agents.fleet.child.conversation import ParentConversation, Tally
from agents.fleet.child.executor import RunExecutor

CONNECTIONS_LIMIT: Final = 100
QUEUE_LIMIT: Final = 1024 * 1024  # bytes that wait until the executor waits too
MISBEHAVED: Final = 1008

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


@dataclass(slots=True)
class Entrance:
    """What one server lets in, and whom."""

    token: str = field(repr=False)
    executor: RunExecutor | None
    tally: Tally = field(default_factory=Tally)
    connections: int = 0

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """The status and the sentence for whoever is not let in."""
        if not self.token or self.executor is None:
            return 404, "There is no such address."
        given = [value for name, value in headers if name == b"authorization"]
        # Always compared in whole, so that time tells nothing of how much was right.
        wanted = b"Bearer " + self.token.encode()
        if len(given) != 1 or not hmac.compare_digest(given[0], wanted):
            return 401, "Authorization: must be Bearer and the token of this server's fleet."
        if self.connections >= CONNECTIONS_LIMIT:
            return 503, "Too many parents are connected."
        return None


class ChildSocket(AsyncWebsocketConsumer):
    def __init__(self, *, entrance: Entrance) -> None:
        super().__init__()
        self._entrance = entrance
        self._line: _Line | None = None
        self._conversation: ParentConversation | None = None

    @override
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # As the native stream: no channel of the layer for each socket.
        self.scope, self.base_send = scope, send
        self._send: Send = send
        try:
            while True:
                await self.dispatch(await receive())
        except StopConsumer:
            pass
        finally:
            await self._leave()

    @override
    async def dispatch(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.connect":
            await self.connect()
        elif kind == "websocket.receive":
            text = message.get("text")
            if text is not None and self._conversation is not None:
                self._conversation.take(text)
        elif kind == "websocket.disconnect":
            raise StopConsumer

    @override
    async def connect(self) -> None:
        executor = self._entrance.executor
        refusal = self._entrance.refusal(self.scope["headers"])
        if refusal is not None or executor is None:
            await self._refuse(*(refusal or (404, "There is no such address.")))
            raise StopConsumer
        self._entrance.connections += 1
        self._line = _Line(self._send)
        self._conversation = ParentConversation(
            self._line, executor, self._entrance.tally, drop=self._line.drop
        )
        await self.accept()

    async def _leave(self) -> None:
        if self._conversation is None or self._line is None:
            return
        try:
            self._line.close()
            self._conversation.hang_up()
            await self._conversation.finish()
        finally:
            self._conversation = None
            self._entrance.connections -= 1

    async def _refuse(self, status: int, sentence: str) -> None:
        if "websocket.http.response" not in (self.scope.get("extensions") or {}):
            await self.close(4000 + status)
            return
        headers = [(b"content-type", b"application/json")]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        start = {"type": "websocket.http.response.start", "status": status}
        await self._send({**start, "headers": headers})
        body = orjson.dumps({"message": sentence})
        await self._send({"type": "websocket.http.response.body", "body": body})


class _Line:
    """Texts leave in order by a task of their own, which waits while the peer has no room."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._queue: deque[bytes] = deque()
        self._size = 0
        self._is_over = False
        self._must_drop = False
        self._came = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._pump = asyncio.create_task(self._run(), name="fleet-socket")

    @property
    def has_room(self) -> bool:
        return self._room.is_set()

    def write(self, payload: bytes) -> None:
        if self._is_over:
            return
        self._queue.append(payload)
        self._size += len(payload)
        if self._size > QUEUE_LIMIT:
            self._room.clear()
        self._came.set()

    async def wait_for_room(self) -> None:
        await self._room.wait()

    def drop(self) -> None:
        self._must_drop = True
        self._came.set()

    def close(self) -> None:
        self._is_over = True
        self._room.set()
        self._pump.cancel()

    async def _run(self) -> None:
        while True:
            await self._came.wait()
            self._came.clear()
            while self._queue and not self._must_drop:
                payload = self._queue.popleft()
                await self._send({"type": "websocket.send", "text": payload.decode()})
                self._size -= len(payload)
                if self._size <= QUEUE_LIMIT // 2:
                    self._room.set()
            if self._must_drop:
                await self._send({"type": "websocket.close", "code": MISBEHAVED})
                return
