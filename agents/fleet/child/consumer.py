"""A child behind a route of the server, for parents that connect with a token.

The conversation is the same as a spawned child's. A request without the token gets
no information; the token is never stored, logged or sent back.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from typing_extensions import override

from agents.fleet.child.conversation import ParentConversation, RunCounts
from agents.fleet.child.executor import RunExecutor
from workspaces.error_answers import websocket_error

CONNECTIONS_LIMIT: Final = 100
QUEUE_LIMIT: Final = 1024 * 1024  # queued bytes above which the executor waits
MISBEHAVED: Final = 1008

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


@dataclass(slots=True)
class Entrance:
    """The access control of one server: its token, its executor and its connections."""

    token: str = field(repr=False)
    executor: RunExecutor | None
    counts: RunCounts = field(default_factory=RunCounts)
    connections: int = 0

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Returns the status and the message for a refused request, ``None`` if it is accepted."""
        if not self.token or self.executor is None:
            return 404, "There is no such address."
        given = [value for name, value in headers if name == b"authorization"]
        # Constant-time comparison: the duration must not reveal how much of the token is right.
        wanted = b"Bearer " + self.token.encode()
        if len(given) != 1 or not hmac.compare_digest(given[0], wanted):
            return (
                401,
                "The header Authorization must be `Bearer TOKEN`, with the token in CRUSH_FLEET_TOKEN.",
            )
        if self.connections >= CONNECTIONS_LIMIT:
            return (
                503,
                f"{CONNECTIONS_LIMIT} parents are connected, which is the limit. Try again later.",
            )
        return None


class ChildSocket(AsyncWebsocketConsumer):
    def __init__(self, *, entrance: Entrance) -> None:
        super().__init__()
        self._entrance = entrance
        self._sender: SocketSender | None = None
        self._conversation: ParentConversation | None = None

    @override
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # As for the native stream: no channel in the channel layer for each socket.
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
        self._sender = SocketSender(self._send)
        self._conversation = ParentConversation(
            self._sender, executor, self._entrance.counts, drop=self._sender.drop
        )
        await self.accept()

    async def _leave(self) -> None:
        if self._conversation is None or self._sender is None:
            return
        try:
            self._sender.close()
            self._conversation.on_disconnect()
            await self._conversation.finish()
        finally:
            self._conversation = None
            self._entrance.connections -= 1

    async def _refuse(self, status: int, sentence: str) -> None:
        if "websocket.http.response" not in (self.scope.get("extensions") or {}):
            await self.close(4000 + status)
            return
        headers = [(b"www-authenticate", b"Bearer")] if status == 401 else []
        for message in websocket_error(status, sentence, headers):
            await self._send(message)


class SocketSender:
    """Sends texts in order from a task of its own, which waits for a slow peer."""

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
