"""Streams a workspace's log to one reader: replay from its cursor, then live.

Both native transports use ``stream_native``; ``/v1`` has no cursor and begins live. Each is an
async iterator of chunks; closing it leaves the room.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from workspaces.delivery import event_log
from workspaces.delivery.hub import Hub
from workspaces.delivery.readers import NativeReader, V1Reader, Wire
from workspaces.log.errors import CursorAhead, CursorExpired
from workspaces.log.reader import read
from workspaces.log.types import StreamOnly


async def stream_native(
    hub: Hub,
    workspace_id: str,
    *,
    after: int | None,
    wire: Wire,
    push: Callable[[bytes], bool] | None = None,
) -> AsyncIterator[bytes]:
    """Yields every event after the cursor once and in order; without a cursor, new events.

    While the caller waits for a chunk, a chunk may go to ``push`` instead, which may decline it.
    Ends after a ``stream.resume`` when the reader was too slow. Raises
    ``WorkspaceUnknown``, ``CursorAhead`` or ``CursorExpired`` before its first chunk.
    """
    room = await hub.room(workspace_id)
    reader = NativeReader(wire, push)
    try:
        begun = sent = room.last_number if after is None else after
        if sent > room.last_number:
            if sent > await read(event_log.read_head, workspace_id):
                raise CursorAhead
            await hub.catch_up(room, sent)
        try:
            async for chunk, number in _replay(workspace_id, sent, None, wire):
                yield chunk
                sent = number
            await hub.catch_up(room, sent)
            opening = room.join_native(reader)
            joined = room.last_number
            async for chunk, number in _replay(workspace_id, sent, joined, wire):
                yield chunk
                sent = number
        except CursorExpired:
            if sent == begun:
                raise
            # Events were deleted during the replay: the next connection is refused.
            yield wire.frames.one(StreamOnly.RESUME, {"after": sent})
            return
        sent = joined
        yield wire.frames.opening(joined, opening)
        chunk, opening = b"", []
        while True:
            for chunk, number in await reader.take():
                yield chunk
                sent = number or sent
            chunk = b""  # frees a large chunk while waiting for the next one
            if reader.overflowed:
                yield wire.frames.one(StreamOnly.RESUME, {"after": max(sent, reader.pushed)})
                return
            if reader.closed:
                return
    finally:
        hub.leave(room, reader)


async def _replay(
    workspace_id: str, after: int, until: int | None, wire: Wire
) -> AsyncIterator[tuple[bytes, int]]:
    """Yields the events after a number, up to another. Raises ``CursorExpired`` at a gap."""
    while until is None or after < until:
        limit = event_log.PAGE if until is None else min(event_log.PAGE, until - after)
        page = await read(event_log.read_events, workspace_id, after=after, limit=limit)
        # The log has no gaps: what is missing was deleted because of its age.
        if page[0].number != after + 1 if page else until is not None:
            raise CursorExpired
        if page:
            after = page[-1].number
            yield wire.frames.batch(page), after
        if len(page) < limit:
            return


async def stream_v1(
    hub: Hub,
    workspace_id: str,
    *,
    replay: Callable[[str], Awaitable[bytes]],
    push: Callable[[bytes], bool] | None = None,
) -> AsyncIterator[bytes]:
    """Yields the pending requests (``replay``), the open messages, then every new envelope.

    While the caller waits for a chunk, a chunk may go to ``push`` instead, which may decline it.
    """
    room = await hub.room(workspace_id)
    reader = V1Reader(push)
    try:
        room.join_v1(reader)
        pending = await replay(workspace_id)
        if pending:
            yield pending
        while chunk := await reader.take(room.v1.batch):
            yield chunk
            del chunk  # frees a large chunk while waiting for the next one
    finally:
        hub.leave(room, reader)
