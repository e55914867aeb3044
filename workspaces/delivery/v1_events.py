"""``GET /v1/workspaces/{id}/events``: the stream of ``/v1`` clients.

It has no cursor: it sends pending requests and open messages, then all new events. It ends when the
workspace closes, and never because its client was slow for a while.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import cast

from typing_extensions import override

from workspaces.client_ids import client_id_of
from workspaces.delivery.attachments import Attachments, StreamRights
from workspaces.delivery.event_log import read_head
from workspaces.delivery.http_stream import HEADERS, HttpStream, Scope
from workspaces.delivery.hub import Hub
from workspaces.delivery.request_params import query_of, workspace_of
from workspaces.delivery.subscribe import stream_v1
from workspaces.log.reader import read

Replay = Callable[[str], Awaitable[bytes]]


class V1Events(HttpStream):
    """The stream; ``replay`` returns the frames of requests that are pending at the start."""

    # Not chunked, but delimited by the connection's end: a chunked body that is cut off (by a
    # crash, by a kill) is a read error that the terminal client repeats forever, while a closed
    # connection makes it reconnect.
    headers = (*HEADERS, (b"connection", b"close"))

    def __init__(
        self, *, hub: Hub, attachments: Attachments, rights: StreamRights, replay: Replay
    ) -> None:
        super().__init__(attachments=attachments, rights=rights)
        self._hub = hub
        self._replay = replay

    @override
    async def stream(self, scope: Scope) -> None:
        workspace_id = workspace_of(scope)
        await self.authorise(scope, workspace_id)
        client_id = client_id_of(query_of(scope).get("client_id", ""))
        await self.attach(workspace_id, client_id)
        # A room that lags behind the log could still get an earlier closing of this workspace,
        # and would end this stream.
        room = await self._hub.room(workspace_id)
        await self._hub.catch_up(room, await read(read_head, workspace_id))
        feed = stream_v1(self._hub, workspace_id, replay=self._begin_and_replay, push=self.push)
        async with aclosing(cast("AsyncGenerator[bytes, None]", feed)) as chunks:
            async for chunk in chunks:
                await self.write(chunk)
                del chunk  # frees a large chunk while waiting for the next one

    async def _begin_and_replay(self, workspace_id: str) -> bytes:
        # Not earlier: the client relies on missing nothing after the response head, and the feed
        # has joined the room only now.
        await self.begin()
        return await self._replay(workspace_id)
