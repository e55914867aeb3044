"""A response that stays open: its head, its chunks, and every way in which it can end.

This is a plain ASGI application. A Channels consumer would take a channel of its own from the
channel layer, pass through a thread for each message, and never learn that the client left.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, cast

import orjson
from typing_extensions import override

from workspaces.delivery.attachments import Attachments, StreamAttachment
from workspaces.delivery.hub import Hub
from workspaces.delivery.pushing import push_of
from workspaces.delivery.readers import Wire
from workspaces.delivery.request_params import client_of, cursor_of, query_of, workspace_of
from workspaces.delivery.subscribe import stream_native
from workspaces.log.errors import Refusal, WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.log.retries import REQUEST_SECONDS, be_patient, patience
from workspaces.queries.workspaces import require_open

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # a proxy in between must not gather
)
SLICE = 64 * 1024  # of one write: what a slow client must be able to take in its patience
PATIENCE_SECONDS = 60.0


class HttpStream(ABC):
    """One request's stream. A subclass says what it asks for and where the chunks come from."""

    headers: tuple[tuple[bytes, bytes], ...] = HEADERS

    def __init__(self, *, attachments: Attachments) -> None:
        self._attachments = attachments
        self._attachment: StreamAttachment | None = None
        self._has_begun = False
        self._is_stuck = False
        self._sending_since: float | None = None

    @classmethod
    def as_asgi(cls, **options: Any) -> Application:
        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await cls(**options).respond(scope, receive, send)

        return application

    @abstractmethod
    async def stream(self, scope: Scope) -> None:
        """Checks what is asked, calls ``begin`` and ``write``, and returns when it is over.

        A ``Refusal`` before ``begin`` is the answer. May be cancelled at any time.
        """

    # -- for subclasses

    async def attach(self, workspace_id: str, client_id: str) -> None:
        """The client holds the workspace while this streams."""
        self._attachment = await self._attachments.attach(
            workspace_id, client_id, close=self._close
        )

    def _close(self) -> None:
        self._pump.cancel()

    async def begin(self) -> None:
        """Flushes the head."""
        self._has_begun = True
        be_patient()  # the client has its answer: what follows may wait for the database
        await self._send({"type": "http.response.start", "status": 200, "headers": [*self.headers]})
        await self.write(b"")

    async def write(self, chunk: bytes) -> None:
        """Returns when the client has room for more."""
        clock = self._loop.time
        for start in range(0, len(chunk) or 1, SLICE):
            self._sending_since = clock()
            body = chunk if len(chunk) <= SLICE else chunk[start : start + SLICE]
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
            self._sending_since = None

    def push(self, chunk: bytes) -> bool:
        """As ``write``, right now; ``False`` where that cannot be. Only between two writes."""
        return self._has_begun and len(chunk) <= SLICE and self._push(chunk)

    # -- its life

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await _answer(send, 405, "only GET is allowed here")
            return
        self._push = push_of(scope)
        self._send = send
        self._loop = asyncio.get_running_loop()
        with patience(REQUEST_SECONDS):
            self._pump = asyncio.create_task(self.stream(scope), name="stream")
        left = asyncio.create_task(_left(receive), name="stream-left")
        self._timer = self._loop.call_later(PATIENCE_SECONDS, self._look)
        try:
            await asyncio.wait({self._pump, left}, return_when=asyncio.FIRST_COMPLETED)
            self._pump.cancel()
            # Cancelled: the client left, or was released.
            with suppress(asyncio.CancelledError):
                await self._pump
            await self._end(send)
        except Refusal as refusal:
            if self._has_begun:
                raise
            await _refuse(send, refusal)
        finally:
            self._timer.cancel()
            self._pump.cancel()
            left.cancel()
            if self._attachment is not None:
                self._attachments.detach(self._attachment)

    async def _end(self, send: Send) -> None:
        if self._is_stuck:
            return  # without an end: the server closes the connection
        if not self._has_begun:
            raise WorkspaceUnknown  # released or closed while it was being opened
        # Also when the client seems to have left: a stopping server says the same.
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _look(self) -> None:
        """Servers other than ours wait for ever for a client that takes nothing."""
        since = self._sending_since
        now = self._loop.time()
        if since is not None and now - since >= PATIENCE_SECONDS:
            self._is_stuck = True
            self._pump.cancel()
            return
        self._timer = self._loop.call_at(
            (now if since is None else since) + PATIENCE_SECONDS, self._look
        )


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(send: Send, refusal: Refusal) -> None:
    await _answer(send, refusal.status, refusal.sentence, refusal.headers)


async def _answer(
    send: Send, status: int, sentence: str, more: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    body = orjson.dumps({"message": sentence})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


RETRY = b"retry: 1000\n\n"


class NativeSse(HttpStream):
    def __init__(self, *, hub: Hub, attachments: Attachments) -> None:
        super().__init__(attachments=attachments)
        self._hub = hub

    @override
    async def stream(self, scope: Scope) -> None:
        workspace_id, query = workspace_of(scope), query_of(scope)
        client_id, after = client_of(query), cursor_of(scope, query)
        if client_id is None:
            await read(require_open, workspace_id)
        else:
            await self.attach(workspace_id, client_id)
        feed = stream_native(self._hub, workspace_id, after=after, wire=Wire.SSE)
        async with aclosing(cast("AsyncGenerator[bytes, None]", feed)) as chunks:
            first = await anext(chunks, b"")  # or it says what is wrong with the cursor
            await self.begin()
            await self.write(RETRY + first)
            del first
            async for chunk in chunks:
                await self.write(chunk)
                del chunk  # a large one is not held until the next one comes
