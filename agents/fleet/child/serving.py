"""How a child serves: one parent, one at a time, or all who come.

``once`` ends with its first connection, ``reusable`` after a while without any,
``forever`` when it is stopped. Nothing here ends a connection that is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from agents.fleet.child.conversation import ParentConversation, Tally
from agents.fleet.child.executor import RunExecutor
from agents.fleet.child.listener import NotAWebSocket, ParentListener
from agents.fleet.child.peer import ParentPeer

CONNECTIONS_LIMIT: Final = 1_000
ENDING_SECONDS: Final = 6.0  # longer than a run takes to be cancelled and aborted


class Mode(StrEnum):
    ONCE = "once"
    REUSABLE = "reusable"
    FOREVER = "forever"


class ServingFailed(Exception):
    """The sentence says why nobody was served."""


ACCEPT_SECONDS: Final = 120.0
IDLE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class StartLimits:
    accept_seconds: float = ACCEPT_SECONDS  # ``once``: for its parent, handshake included
    idle_seconds: float = IDLE_SECONDS  # ``reusable``: for the next one


class Serving:
    """Serves behind an open door."""

    def __init__(self, door: ParentListener, executor: RunExecutor, tally: Tally) -> None:
        self._door = door
        self._executor = executor
        self._tally = tally
        self._conversations: dict[ParentConversation, ParentPeer] = {}

    async def serve(self, mode: Mode, patience: StartLimits, *, stopping: asyncio.Event) -> None:
        """Until its mode ends it or ``stopping`` is set. Raises ``ServingFailed``."""
        match mode:
            case Mode.ONCE:
                work = self._once(patience.accept_seconds)
            case Mode.REUSABLE:
                work = self._reusable(patience.idle_seconds)
            case Mode.FOREVER:
                work = self._forever()
        await self._until(work, stopping)

    async def _until(self, work: Coroutine[Any, Any, None], stopping: asyncio.Event) -> None:
        serving = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            stopped.cancel()
            serving.cancel()
            self._door.close()
            await self._end_all()
            await asyncio.wait({serving})

    async def _once(self, accept_seconds: float) -> None:
        try:
            async with asyncio.timeout(accept_seconds):
                peer = await self._door.next_peer(refusals_count=True)
        except TimeoutError:
            raise ServingFailed(f"Nobody connected within {accept_seconds:g} s.") from None
        except NotAWebSocket:
            raise ServingFailed("What connected first does not speak WebSocket.") from None
        await self._converse(peer)

    async def _reusable(self, idle_seconds: float) -> None:
        while True:
            try:
                async with asyncio.timeout(idle_seconds):
                    peer = await self._door.next_peer()
            except TimeoutError:
                return
            await self._converse(peer)

    async def _forever(self) -> None:
        seats = asyncio.Semaphore(CONNECTIONS_LIMIT)
        tasks: set[asyncio.Task[None]] = set()
        try:
            while True:
                await seats.acquire()
                peer = await self._door.next_peer()
                task = asyncio.create_task(self._converse(peer), name="conversation")
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                task.add_done_callback(lambda _: seats.release())
        finally:
            for task in tasks:
                task.cancel()

    async def _converse(self, peer: ParentPeer) -> None:
        conversation = ParentConversation(peer, self._executor, self._tally, drop=peer.drop)
        self._conversations[conversation] = peer
        try:
            peer.admit(on_text=conversation.take, on_gone=conversation.hang_up)
            await asyncio.shield(peer.gone)
            await conversation.finish()
        finally:
            del self._conversations[conversation]

    async def _end_all(self) -> None:
        left = dict(self._conversations)
        for conversation in left:
            conversation.hang_up()
        if left:
            endings = [asyncio.create_task(conversation.finish()) for conversation in left]
            await asyncio.wait(endings, timeout=ENDING_SECONDS)
            for ending in endings:
                ending.cancel()
        for peer in left.values():
            peer.drop()
