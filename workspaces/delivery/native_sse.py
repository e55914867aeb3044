"""``GET /api/workspaces/{id}/events``: the native stream as server-sent events.

It begins after ``Last-Event-ID`` or ``?after=``, or now. A ``client_id`` attaches that client while
it streams.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from typing_extensions import override

from workspaces.delivery.attachments import Attachments
from workspaces.delivery.http_stream import HttpStream, Scope
from workspaces.delivery.hub import Hub
from workspaces.delivery.readers import Wire
from workspaces.delivery.request_params import client_of, cursor_of, query_of, workspace_of
from workspaces.delivery.subscribe import stream_native
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open

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
