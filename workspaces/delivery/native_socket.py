"""``/api/workspaces/{id}/stream``: the native stream and commands over one WebSocket.

Each message to the client is a JSON array of items; each message from it is a command. The stream
begins after the event ``?after=``, or now. A ``client_id`` attaches that client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

import orjson
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from typing_extensions import override

from workspaces.access import Actor, Caller, Right, caller_of
from workspaces.bounded_json import parse
from workspaces.delivery import native_frames
from workspaces.delivery.attachments import Attachments, StreamAttachment, StreamRights
from workspaces.delivery.hub import Hub
from workspaces.delivery.push import push_of
from workspaces.delivery.readers import Wire
from workspaces.delivery.request_params import client_of, cursor_of, query_of, workspace_of
from workspaces.delivery.subscribe import stream_native
from workspaces.error_answers import websocket_error
from workspaces.log.deadlines import REQUEST_SECONDS, wait_at_most
from workspaces.log.errors import BadField, Refusal, ShuttingDown
from workspaces.log.reader import read
from workspaces.log.types import StreamOnly
from workspaces.queries.workspaces import require_open

logger = logging.getLogger(__name__)

COMMAND_LIMIT = 16 * 1024 * 1024
AT_ONCE = 16  # commands running for one socket; at this limit the socket is not read
ID_BYTES = 1024  # largest id of a command, because the reply repeats it
FAILED = 1011
RESTARTING = 1012
TOO_SLOW = 4008
UNAUTHORISED = 4401
RELEASED = 4409
# The prefix of the reader's last message, up to its data.
_RESUME = native_frames.ws_one(native_frames.stream_only_json(StreamOnly.RESUME, {}))[:-4]

Message = MutableMapping[str, Any]
Feed = AsyncGenerator[bytes, None]
Body = Mapping[str, Any]
Reply = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Command:
    """What a command does, and the right in the workspace that it needs."""

    right: Right
    run: Callable[[str, Body, Actor], Awaitable[Mapping[str, Any] | None]]
    # Checks what the fields need beyond that right.
    check: Callable[[Caller, str, Body], Awaitable[None]] | None = None


class NativeSocket(AsyncWebsocketConsumer):
    def __init__(
        self,
        *,
        hub: Hub,
        attachments: Attachments,
        rights: StreamRights,
        commands: Mapping[str, Command],
        command_limit: int = COMMAND_LIMIT,
    ) -> None:
        super().__init__()
        self._hub = hub
        self._attachments = attachments
        self._rights = rights
        self._stop_watching: Callable[[], None] | None = None
        self._given = commands
        self._limit = command_limit
        self._attachment: StreamAttachment | None = None
        self._pump: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._commands: Commands | None = None

    @override
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # Channels' own implementation gives every socket a channel of the layer (with Redis, a
        # subscription) and uses a thread for each message. The hub needs neither.
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
            with wait_at_most(REQUEST_SECONDS):
                workspace_id, feed, first = await self._open()
        except Refusal as refusal:
            await self._refuse(refusal)
            raise StopConsumer from None
        self._commands = Commands(
            workspace_id,
            self._given,
            caller=caller_of(self.scope),
            client_id=client_of(query_of(self.scope)) or "",
            reply=self._send_items,
        )
        await self.accept()
        self._pump = asyncio.create_task(self._stream(feed, first), name="socket")
        if self._attachment is not None and self._attachment.is_closing:
            self._release()  # it was released while the feed was being opened

    async def _open(self) -> tuple[str, Feed, bytes]:
        workspace_id, query = workspace_of(self.scope), query_of(self.scope)
        caller = caller_of(self.scope)
        await caller.require(Right.READ, workspace_id)
        self._stop_watching = self._rights.watch(caller, workspace_id, self._end_unauthorised)
        client_id, after = client_of(query), cursor_of(self.scope, query)
        if client_id is None:
            await read(require_open, workspace_id)
        else:
            self._attachment = await self._attachments.attach(
                workspace_id, client_id, close=self._release
            )
        events = stream_native(
            self._hub, workspace_id, after=after, wire=Wire.WS, push=push_of(self.scope)
        )
        feed = cast("Feed", events)
        try:
            first = await anext(feed)  # raises if the cursor is invalid
        except StopAsyncIteration:
            raise ShuttingDown from None
        return workspace_id, feed, first

    async def _stream(self, feed: Feed, first: bytes) -> None:
        code = RESTARTING  # only a stopping hub ends a feed without an error
        try:
            async with aclosing(feed):
                await self._send_items(first)
                del first
                async for items in feed:
                    await self._send_items(items)
                    if items.startswith(_RESUME):
                        code = TOO_SLOW
                    del items  # frees large items while waiting for the next ones
        except Exception:
            logger.exception("a stream failed")
            code = FAILED
        await self.close(code)

    async def _send_items(self, items: bytes) -> None:
        await self._send({"type": "websocket.send", "text": items.decode()})

    def _release(self) -> None:
        self._end_with(RELEASED)

    def _end_unauthorised(self) -> None:
        self._end_with(UNAUTHORISED)

    def _end_with(self, code: int) -> None:
        if self._pump is not None and self._ending is None:
            self._ending = asyncio.create_task(self._close_after(self._pump, code))

    async def _close_after(self, pump: asyncio.Task[None], code: int) -> None:
        pump.cancel()
        await asyncio.wait({pump})
        await self.close(code)

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
        if self._stop_watching is not None:
            self._stop_watching()
        if self._pump is not None:
            self._pump.cancel()
        if self._attachment is not None:
            self._attachments.detach(self._attachment)

    async def _refuse(self, refusal: Refusal) -> None:
        if "websocket.http.response" not in (self.scope.get("extensions") or {}):
            await self.close(4000 + refusal.status)
            return
        for message in websocket_error(
            refusal.status, refusal.sentence, refusal.headers, code=refusal.code
        ):
            await self._send(message)


class Commands:
    """The commands of one socket. Commands of one session run one after another, in order.

    Every message of a client gets a reply, even a malformed one, and the stream stays open.
    """

    def __init__(
        self,
        workspace_id: str,
        commands: Mapping[str, Command],
        *,
        caller: Caller,
        client_id: str = "",
        reply: Reply,
    ) -> None:
        self._workspace_id = workspace_id
        self._caller = caller
        self._actor = caller.actor(client_id, via="socket")
        self._commands = commands
        self._reply = reply
        self._places = asyncio.Semaphore(AT_ONCE)
        self._working: set[asyncio.Task[None]] = set()
        self._last: dict[str, asyncio.Task[None]] = {}  # the newest command of each session

    async def take(self, text: str | bytes) -> None:
        """Starts a command; returns when the next one may be read."""
        await self._places.acquire()
        try:
            body = await _parsed(text)
        except BadField as refusal:
            self._begin(self._refuse(refusal), "")
        else:
            session_id = body.get("session_id")
            key = session_id if isinstance(session_id, str) else ""
            self._begin(self._carry_out(body, after=self._last.get(key)), key)

    async def refuse(self, refusal: Refusal) -> None:
        await self._reply(_reply(None, refusal=refusal))

    async def finish(self) -> None:
        """Waits for the running commands, which complete even after the client disconnected."""
        if self._working:
            await asyncio.wait(self._working)

    def _begin(self, work: Any, key: str) -> None:
        task = asyncio.create_task(work, name="command")
        self._working.add(task)
        if key:
            self._last[key] = task
        task.add_done_callback(lambda done: self._ended(done, key))

    def _ended(self, task: asyncio.Task[None], key: str) -> None:
        self._places.release()
        self._working.discard(task)
        if self._last.get(key) is task:
            del self._last[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a command's reply failed", exc_info=error)

    async def _refuse(self, refusal: Refusal) -> None:
        await self.refuse(refusal)

    async def _carry_out(self, body: Body, *, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait({after})
        await self._reply(await self._result(body))

    async def _result(self, body: Body) -> bytes:
        command_id, name = body.get("id"), body.get("command")
        command = self._commands.get(name) if isinstance(name, str) else None
        if command is None:
            known = ", ".join(sorted(self._commands))
            return _reply(command_id, refusal=BadField(f"command: must be one of {known}"))
        try:
            with wait_at_most(REQUEST_SECONDS):
                await self._caller.require(command.right, self._workspace_id)
                if command.check is not None:
                    await command.check(self._caller, self._workspace_id, body)
                actor = self._actor
                if command.right is Right.PROMPT:
                    actor = await self._caller.sender(actor)
                data = await command.run(self._workspace_id, body, actor)
        except Refusal as refusal:
            return _reply(command_id, refusal=refusal)
        except Exception:
            logger.exception("the command %s failed", name)
            return _reply(command_id, code="internal_error", message="internal server error")
        return _reply(command_id, data=data)


async def _parsed(text: str | bytes) -> Body:
    try:
        body = await parse(text)
    except ValueError as error:
        raise BadField(f"malformed JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadField("a command must be a JSON object")
    if "id" in body and len(orjson.dumps(body["id"])) > ID_BYTES:
        raise BadField(f"id: must have at most {ID_BYTES} bytes")
    return body


def _reply(
    command_id: Any,
    *,
    refusal: Refusal | None = None,
    code: str = "",
    message: str = "",
    data: Mapping[str, Any] | None = None,
) -> bytes:
    reply: dict[str, Any] = {"type": "reply", "id": command_id, "ok": not (refusal or code)}
    if refusal is not None:
        code, message = refusal.code, refusal.sentence
    if code:
        reply |= {"code": code, "message": message}
    if data is not None:
        reply["data"] = data
    return orjson.dumps([reply])
