"""The open streams of this process: the claims that they keep valid, and the rights of readers.

A client's first stream marks its claim as streaming; the end of its last stream starts the claim's
grace, however it ended. A stream is open for hours, so the right of its reader is checked again and
again. Independent of the transport: a stream passes a callback that closes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from workspaces.access import Caller, Right
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
    """Closes a client's streams in this process, of one workspace or of all."""
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
        self.is_held = False  # its claim has been written
        self.is_closing = False
        self._close = close

    @property
    def key(self) -> Key:
        return self.workspace_id, self.client_id

    def close(self) -> None:
        """Signals the stream to end; the stream then detaches itself."""
        self.is_closing = True
        self._close()


class Attachments:
    """The attached streams of this process.

    ``on_detached(workspace_id, grace_seconds)`` is called after a client's last stream ended: the
    claims of the workspace must be checked when the grace is over.
    """

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
        """Registers a stream and writes its claim.

        Raises ``WorkspaceUnknown`` when the workspace is not open, and ``ClientRetired``.
        """
        attachment = StreamAttachment(workspace_id, client_id, close)
        # Before the write: a release of the client meanwhile must find the stream.
        self._open.setdefault(attachment.key, set()).add(attachment)
        try:
            await self._hold(attachment.key)
        except BaseException:
            self.detach(attachment)
            raise
        attachment.is_held = True
        return attachment

    def detach(self, attachment: StreamAttachment) -> None:
        """Removes a stream; the write follows in the background.

        May be called twice, and from a cancelled task.
        """
        streams = self._open.get(attachment.key)
        if streams is None or attachment not in streams:
            return
        streams.discard(attachment)
        if not streams:
            del self._open[attachment.key]
            self._begin(self._release(attachment.key))

    def close_client(self, client_id: str, workspace_id: str | None = None) -> int:
        """Closes the streams of a released or retired client; returns their number."""
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
        """Renews the claims of attached streams, and closes streams whose claim is gone.

        Called every few seconds, and before expired claims are removed. Another process may have
        released a claim.
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
                # A stream of the same client ended in another process; ours is still open.
                await self._hold(key)

    async def stop(self) -> None:
        """Detaches the remaining streams and waits for the writes."""
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

    async def _release(self, key: Key) -> None:
        # The writer keeps the order of one workspace's writes, so this does not detach a stream
        # that opens afterwards.
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
    """Returns the claims of these clients, and whether each is streaming."""
    rows = ClientClaim.objects.filter(client_id__in=client_ids)
    return {
        (workspace_id, client_id): is_streaming
        for workspace_id, client_id, is_streaming in rows.values_list(
            "workspace_id", "client_id", "is_streaming"
        )
    }


@dataclass(eq=False, slots=True)
class _Watched:
    caller: Caller
    workspace_id: str
    close: Callable[[], None]


class StreamRights:
    """The streams of one process whose readers may lose their right."""

    def __init__(self) -> None:
        self._watched: set[_Watched] = set()

    def watch(
        self, caller: Caller, workspace_id: str, close: Callable[[], None]
    ) -> Callable[[], None]:
        """Calls ``close`` once the caller may not read; returns a function that stops the watch."""
        if caller.renew is None:
            return _nothing
        watched = _Watched(caller, workspace_id, close)
        self._watched.add(watched)

        def stop() -> None:
            self._watched.discard(watched)

        return stop

    async def check(self) -> None:
        """Closes the streams of those who have lost that right. Call it every second."""
        for watched in list(self._watched):
            identity = await watched.caller.current()
            # The stream itself ends the watch, so one that was still being opened is found again.
            if watched in self._watched and not identity.may(Right.READ, watched.workspace_id):
                watched.close()


def _nothing() -> None:
    """Nothing is watched."""
