"""The WebSocket side of a child: its listening socket on loopback, and one connection of a parent.

A connection converts between bytes and texts. It uses the protocol of ``websockets`` without its
I/O: a real child answers with three headers, drops a peer that sends too much without a close
frame, and closes with an empty frame, which no ready-made server does. Independent of fleet
frames and runs.

A silent peer does not block others: each has its own timeout for the handshake, and the first
complete request is served first.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Final

from typing_extensions import override
from websockets.frames import Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

MESSAGE_LIMIT: Final = 64 * 1024 * 1024
FRAME_LIMIT: Final = 16 * 1024 * 1024
SEND_HIGH: Final = 1024 * 1024  # unsent bytes above which the executor waits
LINGER_SECONDS: Final = 1.0  # for the last bytes after a close

_EMPTY_CLOSE = b"\x88\x00"
_RESET = struct.pack("ii", 1, 0)


class ParentPeer(asyncio.Protocol):
    """Calls ``on_request`` when the peer has sent a complete WebSocket request.

    Reads nothing more until the peer is admitted. Calls ``on_refused`` after the response
    to any other request, except a web page's.
    """

    def __init__(
        self, *, on_request: Callable[[ParentPeer], None], on_refused: Callable[[ParentPeer], None]
    ) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_request = on_request
        self._on_refused = on_refused
        self._on_text: Callable[[str], None] | None = None
        self._on_gone: Callable[[], None] | None = None
        self._wire = ServerProtocol(max_size=(MESSAGE_LIMIT, FRAME_LIMIT))
        self._answer: Response | None = None
        self._fragments: list[bytes] = []
        self._is_text = False  # whether the fragmented message is text
        self._is_paused = False
        self._late_pong = b""
        self._room: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    # -- for the server

    def admit(self, *, on_text: Callable[[str], None], on_gone: Callable[[], None]) -> None:
        """Completes the handshake and starts reading texts. Calls ``on_gone`` once at the end."""
        if self._transport is None or self._answer is None or self.gone.done():
            on_gone()
            return
        self._on_text, self._on_gone = on_text, on_gone
        self._wire.send_response(self._answer)
        self._flush()
        self._transport.resume_reading()

    def drop(self) -> None:
        """Resets the connection without a close frame. May be called repeatedly."""
        if self._transport is not None and not self._transport.is_closing():
            sock = self._transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        if self._transport is not None:
            self._transport.abort()

    @property
    def has_room(self) -> bool:
        return not self._is_paused

    def write(self, payload: bytes) -> None:
        if self._wire.state is OPEN and not self.gone.done():
            self._wire.send_text(payload)
            self._flush()

    async def wait_for_room(self) -> None:
        while self._is_paused and not self.gone.done():
            if self._room is None or self._room.done():
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)  # other tasks may wait for the same future

    # -- for the transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  TCP transports are streams
        self._transport = transport
        transport.set_write_buffer_limits(high=SEND_HIGH)
        # asyncio sets TCP_NODELAY: small frames leave at once.

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        self._give_room()

    @override
    def pause_writing(self) -> None:
        self._is_paused = True

    @override
    def resume_writing(self) -> None:
        self._is_paused = False
        if self._late_pong and self._transport is not None:
            self._transport.write(self._late_pong)
            self._late_pong = b""
        self._give_room()

    @override
    def data_received(self, data: bytes) -> None:
        if self.gone.done():
            return
        wire = self._wire
        wire.receive_data(data)
        for event in wire.events_received():
            if isinstance(event, Request):
                self._answer_request(event)
            elif isinstance(event, Response) or self._answer is None or self._on_text is None:
                self.drop()  # it sent data before the response
            else:
                self._take(event.opcode, bytes(event.data), is_last=event.fin)
            if self.gone.done():
                return
        if wire.handshake_exc is not None:
            self._refuse()
        elif wire.parser_exc is not None:
            self.drop()  # too much data, or a protocol error
            self._leave()
        elif self._is_paused:
            # For a slow peer, keeps only the newest pong: it answers all earlier pings.
            self._late_pong = (wire.data_to_send() or [self._late_pong])[-1]
        else:
            self._flush()

    # -- receiving

    def _answer_request(self, request: Request) -> None:
        if "Origin" in request.headers:
            # Only browsers send it, and no web page may connect to a program on this machine.
            answer = self._wire.reject(403, "Requests of web pages are refused.\n")
        else:
            answer = self._wire.accept(request)
        del answer.headers["Date"]
        if answer.status_code != 101:
            self._wire.send_response(answer)
            self._refuse(notifies="Origin" not in request.headers)
            return
        self._answer = answer
        if self._transport is not None:
            self._transport.pause_reading()
        self._on_request(self)

    def _refuse(self, *, notifies: bool = True) -> None:
        self._flush()
        self._close()
        if notifies:
            self._on_refused(self)

    def _take(self, opcode: Opcode, data: bytes, *, is_last: bool) -> None:
        if opcode is Opcode.CLOSE:
            self._wire.data_to_send()  # discards its close frame, which would repeat the code
            if self._transport is not None:
                self._transport.write(_EMPTY_CLOSE)
            self._close()
            return
        if opcode in {Opcode.PING, Opcode.PONG}:
            return
        if opcode is not Opcode.CONT:
            self._is_text = opcode is Opcode.TEXT
        if self._is_text:
            self._fragments.append(data)
            if is_last:
                whole, self._fragments = b"".join(self._fragments), []
                self._deliver(whole)

    def _deliver(self, message: bytes) -> None:
        try:
            text = message.decode()
        except UnicodeDecodeError:
            self.drop()
            self._leave()
            return
        if self._on_text is not None:
            self._on_text(text)

    # -- sending and closing

    def _flush(self) -> None:
        if self._transport is not None:
            for data in self._wire.data_to_send():
                if data:  # empty data marks the end of the stream
                    self._transport.write(data)

    def _close(self) -> None:
        """Closes the transport, with ``LINGER_SECONDS`` to send the last bytes."""
        if self._transport is not None:
            self._transport.close()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.abort)
        self._leave()

    def _leave(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
            if self._on_gone is not None:
                self._on_gone()

    def _give_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


HANDSHAKE_SECONDS: Final = 10.0
WAITING_LIMIT: Final = 256


class NotAWebSocket(Exception):
    """A peer sent a request that is not a WebSocket handshake."""


class ParentListener:
    def __init__(self, *, handshake_seconds: float = HANDSHAKE_SECONDS) -> None:
        self._handshake_seconds = handshake_seconds
        self._server: asyncio.Server | None = None
        # Peers without a complete request.
        self._handshaking: dict[ParentPeer, asyncio.TimerHandle] = {}
        self._ready: deque[ParentPeer] = deque()
        self._came = asyncio.Event()
        self._refused = 0

    async def open(self) -> str:
        """Opens the socket and returns its endpoint."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._accept_peer, "127.0.0.1", 0, backlog=WAITING_LIMIT
        )
        port = self._server.sockets[0].getsockname()[1]
        return f"ws://127.0.0.1:{port}"

    async def next_peer(self, *, refusals_count: bool = False) -> ParentPeer:
        """Returns the peer whose request came first.

        With ``refusals_count``, raises ``NotAWebSocket`` after any other request.
        """
        while True:
            while self._ready:
                peer = self._ready.popleft()
                if not peer.gone.done():
                    return peer
            if refusals_count and self._refused:
                raise NotAWebSocket
            self._came.clear()
            await self._came.wait()

    def close(self) -> None:
        """Closes the socket and drops the waiting peers."""
        if self._server is not None:
            self._server.close()
        for timer in self._handshaking.values():
            timer.cancel()
        for peer in [*self._handshaking, *self._ready]:
            peer.drop()
        self._handshaking.clear()
        self._ready.clear()

    def _accept_peer(self) -> ParentPeer:
        if len(self._handshaking) >= WAITING_LIMIT:
            self._time_out(next(iter(self._handshaking)))
        peer = ParentPeer(on_request=self._enqueue, on_refused=self._note_refused)
        loop = asyncio.get_running_loop()
        self._handshaking[peer] = loop.call_later(self._handshake_seconds, self._time_out, peer)
        peer.gone.add_done_callback(lambda _: self._forget(peer))
        return peer

    def _enqueue(self, peer: ParentPeer) -> None:
        self._forget(peer)
        if len(self._ready) >= WAITING_LIMIT:
            self._ready = deque(waiting for waiting in self._ready if not waiting.gone.done())
        if len(self._ready) >= WAITING_LIMIT:
            peer.drop()
            return
        self._ready.append(peer)
        self._came.set()

    def _note_refused(self, _peer: ParentPeer) -> None:
        self._refused += 1
        self._came.set()

    def _time_out(self, peer: ParentPeer) -> None:
        self._forget(peer)
        peer.drop()

    def _forget(self, peer: ParentPeer) -> None:
        timer = self._handshaking.pop(peer, None)
        if timer is not None:
            timer.cancel()
