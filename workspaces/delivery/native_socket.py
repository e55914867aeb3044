"""``/api/workspaces/{id}/stream``: the native stream and commands over one WebSocket.

Each message to the client is a JSON array of items; each message from it is a command. The stream
begins after ``?after=``, or now. A ``client_id`` attaches that client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from typing import Any, cast

import orjson
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from typing_extensions import override

from workspaces.delivery import native_frames
from workspaces.delivery.attachments import Attachments, StreamAttachment
from workspaces.delivery.commands import Command, Commands
from workspaces.delivery.hub import Hub
from workspaces.delivery.readers import Wire
from workspaces.delivery.request_params import client_of, cursor_of, query_of, workspace_of
from workspaces.delivery.subscribe import stream_native
from workspaces.log.errors import BadField, Refusal, ShuttingDown
from workspaces.log.reader import read
from workspaces.log.retries import REQUEST_SECONDS, patience
from workspaces.log.types import StreamOnly
from workspaces.queries.workspaces import require_open

logger = logging.getLogger(__name__)

COMMAND_LIMIT = 16 * 1024 * 1024
FAILED = 1011
RESTARTING = 1012
TOO_SLOW = 4008
RELEASED = 4409
# How the reader's last message begins, up to its data.
_RESUME = native_frames.ws_one(native_frames.stream_only_json(StreamOnly.RESUME, {}))[:-4]

Message = MutableMapping[str, Any]
Feed = AsyncGenerator[bytes, None]


class NativeSocket(AsyncWebsocketConsumer):
    def __init__(
        self,
        *,
        hub: Hub,
        attachments: Attachments,
        commands: Mapping[str, Command],
        command_limit: int = COMMAND_LIMIT,
    ) -> None:
        super().__init__()
        self._hub = hub
        self._attachments = attachments
        self._given = commands
        self._limit = command_limit
        self._attachment: StreamAttachment | None = None
        self._pump: asyncio.Task[None] | None = None
        self._releasing: asyncio.Task[None] | None = None
        self._commands: Commands | None = None

    @override
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # Channels' own way gives every socket a channel of the layer (with Redis, a
        # subscription) and visits a thread for each message. The hub makes both needless.
        self.scope, self.base_send = scope, send
        self._send: Callable[[Message], Awaitable[None]] = send
        try:
            while True:
                await self.dispatch(await receive())
        except StopConsumer:
            pass
        finally:
            self._leave()

    @override
    async def dispatch(self, message: Message) -> None:
        kind = message["type"]
        if kind == "websocket.connect":
            await self.connect()
        elif kind == "websocket.receive":
            await self.receive(message.get("text"), message.get("bytes"))
        elif kind == "websocket.disconnect":
            await self.disconnect(message.get("code", 1005))
            raise StopConsumer

    # -- the feed

    @override
    async def connect(self) -> None:
        try:
            with patience(REQUEST_SECONDS):
                workspace_id, feed, first = await self._open()
        except Refusal as refusal:
            await self._refuse(refusal)
            raise StopConsumer from None
        self._commands = Commands(workspace_id, self._given, reply=self._send_items)
        await self.accept()
        self._pump = asyncio.create_task(self._stream(feed, first), name="socket")
        if self._attachment is not None and self._attachment.is_closing:
            self._release()  # while the feed was being opened

    async def _open(self) -> tuple[str, Feed, bytes]:
        workspace_id, query = workspace_of(self.scope), query_of(self.scope)
        client_id, after = client_of(query), cursor_of(self.scope, query)
        if client_id is None:
            await read(require_open, workspace_id)
        else:
            self._attachment = await self._attachments.attach(
                workspace_id, client_id, close=self._release
            )
        events = stream_native(self._hub, workspace_id, after=after, wire=Wire.WS)
        feed = cast("Feed", events)
        try:
            first = await anext(feed)  # or it says what is wrong with the cursor
        except StopAsyncIteration:
            raise ShuttingDown from None
        return workspace_id, feed, first

    async def _stream(self, feed: Feed, first: bytes) -> None:
        code = RESTARTING  # only a stopping hub ends a feed by itself
        try:
            async with aclosing(feed):
                await self._send_items(first)
                del first
                async for items in feed:
                    await self._send_items(items)
                    if items.startswith(_RESUME):
                        code = TOO_SLOW
                    del items  # large ones are not held until the next ones come
        except Exception:
            logger.exception("a stream failed")
            code = FAILED
        await self.close(code)

    async def _send_items(self, items: bytes) -> None:
        await self._send({"type": "websocket.send", "text": items.decode()})

    def _release(self) -> None:
        if self._pump is not None:
            self._releasing = asyncio.create_task(self._close_released(self._pump))

    async def _close_released(self, pump: asyncio.Task[None]) -> None:
        pump.cancel()
        await asyncio.wait({pump})
        await self.close(RELEASED)

    # -- commands

    @override
    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._commands is None:
            return
        if text_data is None:
            await self._commands.refuse(BadField("commands are JSON in text messages"))
        elif len(text_data) > self._limit:
            await self._commands.refuse(BadField(f"a command has at most {self._limit} characters"))
        else:
            await self._commands.take(text_data)

    # -- the end

    @override
    async def disconnect(self, code: int) -> None:
        self._leave()
        if self._commands is not None:
            await self._commands.finish()

    def _leave(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
        if self._attachment is not None:
            self._attachments.detach(self._attachment)

    async def _refuse(self, refusal: Refusal) -> None:
        if "websocket.http.response" not in (self.scope.get("extensions") or {}):
            await self.close(4000 + refusal.status)
            return
        body = orjson.dumps({"message": refusal.sentence})
        headers = [(b"content-type", b"application/json"), *refusal.headers]
        start = {"type": "websocket.http.response.start", "status": refusal.status}
        await self._send({**start, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": body})
