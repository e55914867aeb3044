"""The stream of a workspace: items in order, through any number of connections, and commands."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import quote

from crushclient.commands import Commands
from crushclient.connections import (
    ConnectionEnded,
    SocketConnection,
    SseConnection,
    StreamConnection,
)
from crushclient.errors import (
    ApiError,
    ConnectionFailed,
    CrushError,
    NotFoundError,
    StreamClosed,
)
from crushclient.items import LogEvent, StreamItem, StreamLive, StreamLost
from crushclient.stream_fold import StreamBroken, StreamFold
from crushclient.transport import HttpTransport

Protocol: TypeAlias = Literal["websocket", "sse"]
MOST_WAITING = 10_000  # items; then the connection is not read, and the server may end it


class EventStream(Commands):
    """An async context manager and an async iterator of ``StreamItem``.

    A task reads the connection and connects again when it ends. Iteration ends after ``close``,
    and raises ``ApiError`` when another connection would be refused too: the credential was
    revoked, the workspace closed, the client released, or the cursor is ahead of the log.
    """

    def __init__(
        self,
        transport: HttpTransport,
        workspace_id: str,
        *,
        after: int | None = None,
        client_id: str | None = None,
        path: str | None = None,
        protocol: Protocol = "websocket",
    ) -> None:
        """``path``: the workspace's folder, to open it again if it was closed meanwhile."""
        super().__init__(transport.retry, begins=lambda: self._has_space.set())
        self.workspace_id = workspace_id
        self.cursor = after  # of the newest event that the iterator returned
        self.connections = 0
        self._transport = transport
        self._client_id = client_id
        self._path = path
        self._kind = SocketConnection if protocol == "websocket" else SseConnection
        self._fold = StreamFold(after)
        self._items: deque[StreamItem] = deque()
        self._has_items = asyncio.Event()
        self._has_space = asyncio.Event()
        self._has_space.set()
        self._reader: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._is_closed = False
        self._was_live = False  # since the connection began

    # -- its life

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connects. Raises ``ApiError``, or ``ConnectionFailed`` after several attempts."""
        retry = self._transport.retry
        failures = 0
        while True:
            try:
                connection = await self._connect()
                break
            except (ApiError, ConnectionFailed) as error:
                failures += 1
                if self._is_final(error) or failures >= retry.attempts:
                    raise
                await asyncio.sleep(retry.pause(failures))
        self._ended = None
        self._reader = asyncio.create_task(self._run(connection), name="crushclient stream")

    async def close(self) -> None:
        """Ends the stream; commands without a reply raise ``CommandUnconfirmed``."""
        self._is_closed = True
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait({self._reader})
        self._end(None)

    def __aiter__(self) -> AsyncIterator[StreamItem]:
        return self

    async def __anext__(self) -> StreamItem:
        while not self._items:
            if self._error is not None:
                raise self._error
            if self._is_closed:
                raise StopAsyncIteration
            if self._reader is None:
                raise StreamClosed("open the stream first: `async with client.stream(…) as stream`")
            self._has_items.clear()
            await self._has_items.wait()
        item = self._items.popleft()
        if len(self._items) < MOST_WAITING:
            self._has_space.set()
        if isinstance(item, LogEvent | StreamLive):
            self.cursor = item.number
        return item

    # -- reading

    async def _connect(self) -> StreamConnection:
        query = {}
        if self._fold.cursor is not None:
            query["after"] = str(self._fold.cursor)
        if self._client_id is not None:
            query["client_id"] = self._client_id
        address = f"/api/workspaces/{quote(self.workspace_id, safe='')}"
        connection: StreamConnection
        try:
            connection = await self._kind.open(self._transport, address, query)
        except NotFoundError:
            # A workspace that no client claims closes, also while its server restarts.
            if self._client_id is None or self._path is None:
                raise
            await open_workspace(self._transport, self._path, self._client_id)
            connection = await self._kind.open(self._transport, address, query)
        self.connections += 1
        return connection

    async def _run(self, connection: StreamConnection | None) -> None:
        failures, lost_at = 0, time.monotonic()
        error: CrushError | StreamBroken | ConnectionEnded
        try:
            while True:
                try:
                    if connection is None:
                        connection = await self._connect()
                    await self._read(connection)
                except (ConnectionEnded, StreamBroken, ApiError, ConnectionFailed) as failed:
                    if self._was_live:
                        failures, lost_at = 0, time.monotonic()
                    self._was_live = False
                    failures, error = failures + 1, failed
                    if self._is_final(failed):
                        raise
                    if self._has_given_up(lost_at):
                        raise ConnectionFailed(f"the stream was lost: {failed}") from failed
                finally:
                    await self._leave(connection)
                    connection = None
                after = error.retry_after_seconds if isinstance(error, ApiError) else None
                pause = self._transport.retry.pause(failures, retry_after_seconds=after)
                self._put([StreamLost(str(error), pause)])
                await asyncio.sleep(pause)
        except CrushError as final:
            self._end(final)
        except Exception as unexpected:  # noqa: BLE001  # the iterator raises it
            self._end(unexpected)

    async def _read(self, connection: StreamConnection) -> None:
        await self._connected(connection)
        async with aclosing(connection.batches()) as batches:
            async for batch in batches:
                for raw in batch:
                    if isinstance(raw, Mapping) and raw.get("type") == "reply":
                        self._resolve(raw)
                    else:
                        self._put(self._fold.take(raw))
                await self._wait_for_space()
        raise ConnectionEnded("the server ended the stream")

    async def _wait_for_space(self) -> None:
        # Not while a command waits: its reply comes after what the program has not taken yet.
        while len(self._items) >= MOST_WAITING and not self._has_pending:
            self._has_space.clear()
            await self._has_space.wait()

    async def _leave(self, connection: StreamConnection | None) -> None:
        self._disconnected()
        if connection is not None:
            await connection.close()

    @staticmethod
    def _is_final(error: BaseException) -> bool:
        return isinstance(error, ApiError) and error.status < 500 and error.status != 429

    def _has_given_up(self, lost_at: float) -> bool:
        limit = self._transport.retry.give_up_seconds
        return limit is not None and time.monotonic() - lost_at >= limit

    def _put(self, items: Sequence[StreamItem]) -> None:
        if items:
            self._was_live = self._was_live or any(isinstance(item, StreamLive) for item in items)
            self._items.extend(items)
            self._has_items.set()

    def _end(self, error: BaseException | None) -> None:
        self._error = self._error or error
        self._is_closed = True
        self._has_items.set()
        self._end_commands(error)


async def open_workspace(
    transport: HttpTransport, path: str, client_id: str, **options: Any
) -> Mapping[str, Any]:
    """Opens the workspace of a folder of the server, and claims it for the client."""
    body = {"path": path, "client_id": client_id, **options}
    reply = await transport.request("POST", "/v1/workspaces", body=body, is_repeatable=True)
    workspace: Mapping[str, Any] = reply.data
    return workspace
