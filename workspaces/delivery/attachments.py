"""The open streams of clients in this process, which keep the clients' claims valid.

A client's first stream marks its claim as streaming; the end of its last stream starts the claim's
grace, however it ended. Knows no transport: a stream passes a callback that closes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

from workspaces.actions import claims
from workspaces.log.errors import Refusal
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.log.writer import Writer
from workspaces.models import ClientClaim
from workspaces.queries.workspaces import require_open

logger = logging.getLogger(__name__)

Key = tuple[str, str]  # workspace, client
CloseStreams: TypeAlias = Callable[[str, str | None], object]

_closers: list[CloseStreams] = []


def close_streams(client_id: str, workspace_id: str | None = None) -> None:
    """Ends the streams that this process holds open for a client, of one workspace or of all."""
    for close in _closers:
        close(client_id, workspace_id)


def close_streams_by(close: CloseStreams) -> None:
    _closers.append(close)


def stop_closing_streams_by(close: CloseStreams) -> None:
    if close in _closers:
        _closers.remove(close)


class StreamAttachment:
    """One open stream of one client."""

    __slots__ = ("_close", "client_id", "is_closing", "is_held", "workspace_id")

    def __init__(self, workspace_id: str, client_id: str, close: Callable[[], None]) -> None:
        self.workspace_id = workspace_id
        self.client_id = client_id
        self.is_held = False  # its claim is written
        self.is_closing = False
        self._close = close

    @property
    def key(self) -> Key:
        return self.workspace_id, self.client_id

    def close(self) -> None:
        """Asks the stream to end; it detaches by itself."""
        self.is_closing = True
        self._close()


class Attachments:
    """``on_detached(workspace_id, grace_seconds)``: by then somebody must look who is left."""

    def __init__(
        self,
        instance_id: str,
        writer: Writer,
        *,
        detach_grace_seconds: float,
        on_detached: Callable[[str, float], None],
    ) -> None:
        self._instance_id = instance_id
        self._writer = writer
        self._grace = detach_grace_seconds
        self._on_detached = on_detached
        self._open: dict[Key, set[StreamAttachment]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def attach(
        self, workspace_id: str, client_id: str, *, close: Callable[[], None]
    ) -> StreamAttachment:
        """Raises ``WorkspaceUnknown`` when it is not open, and ``ClientRetired``."""
        attachment = StreamAttachment(workspace_id, client_id, close)
        # Before the write: whoever releases the client meanwhile finds the stream.
        self._open.setdefault(attachment.key, set()).add(attachment)
        try:
            await self._hold(attachment.key)
        except BaseException:
            self.detach(attachment)
            raise
        attachment.is_held = True
        return attachment

    def detach(self, attachment: StreamAttachment) -> None:
        """Returns at once; the write follows. Callable twice, and from a cancelled task."""
        streams = self._open.get(attachment.key)
        if streams is None or attachment not in streams:
            return
        streams.discard(attachment)
        if not streams:
            del self._open[attachment.key]
            self._begin(self._let_go(attachment.key))

    def close_client(self, client_id: str, workspace_id: str | None = None) -> int:
        """Ends a released or retired client's streams; returns how many."""
        found = [
            stream
            for (workspace, client), streams in self._open.items()
            if client == client_id and workspace_id in {None, workspace}
            for stream in streams
        ]
        for stream in found:
            stream.close()
        return len(found)

    async def renew(self) -> None:
        """Every few seconds, and before lapsed claims are dropped: ours have not lapsed.

        Closes the streams whose claim somebody took away in another process.
        """
        held = {
            key: [stream for stream in streams if stream.is_held]
            for key, streams in self._open.items()
        }
        held = {key: streams for key, streams in held.items() if streams}
        if not held:
            return
        await self._writer.write("", partial(claims.renew_claims, holder=self._instance_id))
        found = await read(_read_claims, {client_id for _, client_id in held})
        for key, streams in held.items():
            if key not in found:
                for stream in streams:
                    stream.close()
            elif not found[key] and key in self._open:
                # Another process's stream of the same client ended; ours goes on.
                await self._hold(key)

    async def stop(self) -> None:
        """Detaches what is left and waits for the writes."""
        for streams in list(self._open.values()):
            for attachment in list(streams):
                self.detach(attachment)
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _hold(self, key: Key) -> None:
        workspace_id, client_id = key
        job = partial(
            _attach, workspace_id=workspace_id, client_id=client_id, holder=self._instance_id
        )
        await self._writer.write(workspace_id, job)

    async def _let_go(self, key: Key) -> None:
        # Writes of one workspace are carried out in the order in which they are asked: a
        # stream that opens after this was begun is not detached by it.
        workspace_id, client_id = key
        job = partial(
            _detach,
            workspace_id=workspace_id,
            client_id=client_id,
            holder=self._instance_id,
            grace_seconds=self._grace,
        )
        try:
            await self._writer.write(workspace_id, job)
        except Refusal as refusal:
            logger.debug("a detach was not written and its claim will lapse: %s", refusal)
        self._on_detached(workspace_id, self._grace)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="detach")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a detach failed; its claim will lapse", exc_info=error)


def _attach(tx: Transaction, *, workspace_id: str, client_id: str, holder: str) -> None:
    require_open(workspace_id)
    claims.attach_stream(tx, workspace_id, client_id, holder=holder)


def _detach(
    tx: Transaction, *, workspace_id: str, client_id: str, holder: str, grace_seconds: float
) -> None:
    claims.detach_stream(tx, workspace_id, client_id, holder=holder, grace_seconds=grace_seconds)


def _read_claims(client_ids: set[str]) -> dict[Key, bool]:
    """Which claims these clients have, and whether each is streaming."""
    rows = ClientClaim.objects.filter(client_id__in=client_ids)
    return {
        (workspace_id, client_id): is_streaming
        for workspace_id, client_id, is_streaming in rows.values_list(
            "workspace_id", "client_id", "is_streaming"
        )
    }
