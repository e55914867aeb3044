"""Where parents knock: a listening socket on loopback and the peers that are not served yet.

A peer that connects and says nothing keeps nobody else out: each has its own
time for the handshake, and the first whole request is served first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from agents.fleet.child.peer import ParentPeer

HANDSHAKE_SECONDS: Final = 10.0
WAITING_LIMIT: Final = 256


class NotAWebSocket(Exception):
    """Somebody asked for something else."""


class ParentListener:
    def __init__(self, *, handshake_seconds: float = HANDSHAKE_SECONDS) -> None:
        self._handshake_seconds = handshake_seconds
        self._server: asyncio.Server | None = None
        self._strangers: dict[ParentPeer, asyncio.TimerHandle] = {}  # no request yet
        self._asked: deque[ParentPeer] = deque()
        self._came = asyncio.Event()
        self._refused = 0

    async def open(self) -> str:
        """Returns the endpoint."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._meet, "127.0.0.1", 0, backlog=WAITING_LIMIT)
        port = self._server.sockets[0].getsockname()[1]
        return f"ws://127.0.0.1:{port}"

    async def next_peer(self, *, refusals_count: bool = False) -> ParentPeer:
        """The one that asked first. ``refusals_count``: raises ``NotAWebSocket`` for others."""
        while True:
            while self._asked:
                peer = self._asked.popleft()
                if not peer.gone.done():
                    return peer
            if refusals_count and self._refused:
                raise NotAWebSocket
            self._came.clear()
            await self._came.wait()

    def close(self) -> None:
        """Nobody is let in any more, and who waits is sent away."""
        if self._server is not None:
            self._server.close()
        for timer in self._strangers.values():
            timer.cancel()
        for peer in [*self._strangers, *self._asked]:
            peer.drop()
        self._strangers.clear()
        self._asked.clear()

    def _meet(self) -> ParentPeer:
        if len(self._strangers) >= WAITING_LIMIT:
            self._send_away(next(iter(self._strangers)))
        peer = ParentPeer(on_asked=self._hear, on_refused=self._note_refused)
        loop = asyncio.get_running_loop()
        self._strangers[peer] = loop.call_later(self._handshake_seconds, self._send_away, peer)
        peer.gone.add_done_callback(lambda _: self._forget(peer))
        return peer

    def _hear(self, peer: ParentPeer) -> None:
        self._forget(peer)
        if len(self._asked) >= WAITING_LIMIT:
            self._asked = deque(waiting for waiting in self._asked if not waiting.gone.done())
        if len(self._asked) >= WAITING_LIMIT:
            peer.drop()
            return
        self._asked.append(peer)
        self._came.set()

    def _note_refused(self, _peer: ParentPeer) -> None:
        self._refused += 1
        self._came.set()

    def _send_away(self, peer: ParentPeer) -> None:
        self._forget(peer)
        peer.drop()

    def _forget(self, peer: ParentPeer) -> None:
        timer = self._strangers.pop(peer, None)
        if timer is not None:
            timer.cancel()
