"""A streaming HTTP response: its head, its chunks, and every way in which it can end.

This is a plain ASGI application. A Channels consumer would use one channel of the channel layer for
each stream, use a thread for each message, and never notice that the client disconnected.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, cast

from typing_extensions import override

from workspaces.access import Right, caller_of
from workspaces.delivery.attachments import Attachments, StreamAttachment, StreamRights
from workspaces.delivery.hub import Hub
from workspaces.delivery.push import push_of
from workspaces.delivery.readers import Wire
from workspaces.delivery.request_params import client_of, cursor_of, query_of, workspace_of
from workspaces.delivery.subscribe import stream_native
from workspaces.error_answers import http_error
from workspaces.log.deadlines import REQUEST_SECONDS, wait_at_most, wait_without_limit
from workspaces.log.errors import Refusal, WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # a proxy must not buffer the stream
)
SLICE = (
    64 * 1024
)  # bytes in one write, which a slow client must accept within WRITE_TIMEOUT_SECONDS
WRITE_TIMEOUT_SECONDS = 60.0


class HttpStream(ABC):
    """One request's stream. A subclass reads the parameters and produces the chunks."""

    headers: tuple[tuple[bytes, bytes], ...] = HEADERS
    shows_codes = False  # of refusals

    def __init__(self, *, attachments: Attachments, rights: StreamRights) -> None:
        self._attachments = attachments
        self._rights = rights
        self._stop_watching: Callable[[], None] | None = None
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
        """Checks the request, calls ``begin`` and ``write``, and returns at the end of the stream.

        A ``Refusal`` raised before ``begin`` becomes the response. May be cancelled at any time.
        """

    # -- for subclasses

    async def authorise(self, scope: Scope, workspace_id: str) -> None:
        """Requires the right to read the workspace as long as the stream is open."""
        caller = caller_of(scope)
        await caller.require(Right.READ, workspace_id)
        self._stop_watching = self._rights.watch(caller, workspace_id, self._close)

    async def attach(self, workspace_id: str, client_id: str) -> None:
        """Keeps the client's claim on the workspace valid while the stream is open."""
        self._attachment = await self._attachments.attach(
            workspace_id, client_id, close=self._close
        )

    def _close(self) -> None:
        self._pump.cancel()

    async def begin(self) -> None:
        """Sends the response head."""
        self._has_begun = True
        wait_without_limit()  # the request is answered: the stream may wait longer for the database
        await self._send({"type": "http.response.start", "status": 200, "headers": [*self.headers]})
        await self.write(b"")

    async def write(self, chunk: bytes) -> None:
        """Sends a chunk; returns when the connection accepts more."""
        clock = self._loop.time
        for start in range(0, len(chunk) or 1, SLICE):
            self._sending_since = clock()
            body = chunk if len(chunk) <= SLICE else chunk[start : start + SLICE]
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
            self._sending_since = None

    def push(self, chunk: bytes) -> bool:
        """Writes without waiting, or returns ``False`` where it cannot. Only between two writes."""
        return self._has_begun and len(chunk) <= SLICE and self._push(chunk)

    # -- lifecycle

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await _send_all(send, http_error(405, "only GET is allowed here"))
            return
        self._push = push_of(scope)
        self._send = send
        self._loop = asyncio.get_running_loop()
        with wait_at_most(REQUEST_SECONDS):
            self._pump = asyncio.create_task(self.stream(scope), name="stream")
        left = asyncio.create_task(_left(receive), name="stream-left")
        self._timer = self._loop.call_later(WRITE_TIMEOUT_SECONDS, self._look)
        try:
            await asyncio.wait({self._pump, left}, return_when=asyncio.FIRST_COMPLETED)
            self._pump.cancel()
            # Cancelled: the client disconnected, or its claim was released.
            with suppress(asyncio.CancelledError):
                await self._pump
            await self._end(send)
        except Refusal as refusal:
            if self._has_begun:
                raise
            code = refusal.code if self.shows_codes else ""
            await _send_all(
                send, http_error(refusal.status, refusal.sentence, refusal.headers, code=code)
            )
        finally:
            self._timer.cancel()
            self._pump.cancel()
            left.cancel()
            if self._stop_watching is not None:
                self._stop_watching()
            if self._attachment is not None:
                self._attachments.detach(self._attachment)

    async def _end(self, send: Send) -> None:
        if self._is_stuck:
            return  # without a last chunk: the server closes the connection
        if not self._has_begun:
            raise WorkspaceUnknown  # released or closed before the response began
        # Also after a disconnect: a stopping server sends the same message to the application.
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _look(self) -> None:
        """Cancels a stream whose client reads nothing; servers other than ours wait forever."""
        since = self._sending_since
        now = self._loop.time()
        if since is not None and now - since >= WRITE_TIMEOUT_SECONDS:
            self._is_stuck = True
            self._pump.cancel()
            return
        self._timer = self._loop.call_at(
            (now if since is None else since) + WRITE_TIMEOUT_SECONDS, self._look
        )


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_all(send: Send, messages: Sequence[Message]) -> None:
    for message in messages:
        await send(message)


RETRY = b"retry: 1000\n\n"


class NativeSse(HttpStream):
    shows_codes = True

    def __init__(self, *, hub: Hub, attachments: Attachments, rights: StreamRights) -> None:
        super().__init__(attachments=attachments, rights=rights)
        self._hub = hub

    @override
    async def stream(self, scope: Scope) -> None:
        workspace_id, query = workspace_of(scope), query_of(scope)
        await self.authorise(scope, workspace_id)
        client_id, after = client_of(query), cursor_of(scope, query)
        if client_id is None:
            await read(require_open, workspace_id)
        else:
            await self.attach(workspace_id, client_id)
        feed = stream_native(self._hub, workspace_id, after=after, wire=Wire.SSE, push=self.push)
        async with aclosing(cast("AsyncGenerator[bytes, None]", feed)) as chunks:
            first = await anext(chunks, b"")  # raises if the cursor is invalid
            await self.begin()
            await self.write(RETRY + first)
            del first
            async for chunk in chunks:
                await self.write(chunk)
                del chunk  # frees a large chunk while waiting for the next one
