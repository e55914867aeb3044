"""One TCP connection as a WebSocket: bytes in, texts out, and back.

The protocol itself is ``websockets``' own, without its I/O: a real child answers
with three headers, drops who sends too much without a word, and closes with an
empty frame, which no ready-made server does. Knows no frame and no run.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Final

from typing_extensions import override
from websockets.frames import Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

MESSAGE_LIMIT: Final = 64 * 1024 * 1024
FRAME_LIMIT: Final = 16 * 1024 * 1024
SEND_HIGH: Final = 1024 * 1024  # bytes that wait to be sent until the executor waits too
LINGER_SECONDS: Final = 1.0  # for the last bytes after a close

_EMPTY_CLOSE = b"\x88\x00"
_RESET = struct.pack("ii", 1, 0)


class ParentPeer(asyncio.Protocol):
    """``on_asked`` is called with the peer when its request is whole and a WebSocket's.

    Until it is admitted nothing more is read from it. ``on_refused``: it sent a request
    that is none, and has had its answer.
    """

    def __init__(
        self, *, on_asked: Callable[[ParentPeer], None], on_refused: Callable[[ParentPeer], None]
    ) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.has_asked = False
        self._on_asked = on_asked
        self._on_refused = on_refused
        self._on_text: Callable[[str], None] | None = None
        self._on_gone: Callable[[], None] | None = None
        self._wire = ServerProtocol(max_size=(MESSAGE_LIMIT, FRAME_LIMIT))
        self._answer: Response | None = None
        self._fragments: list[bytes] = []
        self._is_text = False  # the message that the fragments belong to
        self._is_paused = False
        self._late_pong = b""
        self._room: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    # -- for whoever serves it

    def admit(self, *, on_text: Callable[[str], None], on_gone: Callable[[], None]) -> None:
        """Answers the handshake; from now on texts come in. ``on_gone`` comes once."""
        if self._transport is None or self._answer is None or self.gone.done():
            on_gone()
            return
        self._on_text, self._on_gone = on_text, on_gone
        self._wire.send_response(self._answer)
        self._flush()
        self._transport.resume_reading()

    def drop(self) -> None:
        """Cuts the connection with a reset: no close frame. Callable often."""
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
            await asyncio.shield(self._room)  # others may wait for the same

    # -- for the transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  it is a stream's
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
                self._judge(event)
            elif isinstance(event, Response) or self._answer is None or self._on_text is None:
                self.drop()  # it speaks before it is answered
            else:
                self._take(event.opcode, bytes(event.data), is_last=event.fin)
            if self.gone.done():
                return
        if wire.handshake_exc is not None:
            self._refuse()
        elif wire.parser_exc is not None:
            self.drop()  # too much, or not the protocol
            self._leave()
        elif self._is_paused:
            # Pongs for one who reads slowly: the newest answers all pings before it.
            self._late_pong = (wire.data_to_send() or [self._late_pong])[-1]
        else:
            self._flush()

    # -- what comes in

    def _judge(self, request: Request) -> None:
        if "Origin" in request.headers:
            # Only browsers send one, and no page may dial into a program on this machine.
            answer = self._wire.reject(403, "Requests of web pages are refused.\n")
        else:
            answer = self._wire.accept(request)
        del answer.headers["Date"]
        if answer.status_code != 101:
            self._wire.send_response(answer)
            self._refuse(is_told="Origin" not in request.headers)
            return
        self._answer = answer
        self.has_asked = True
        if self._transport is not None:
            self._transport.pause_reading()
        self._on_asked(self)

    def _refuse(self, *, is_told: bool = True) -> None:
        self._flush()
        self._close()
        if is_told:
            self._on_refused(self)

    def _take(self, opcode: Opcode, data: bytes, *, is_last: bool) -> None:
        if opcode is Opcode.CLOSE:
            self._wire.data_to_send()  # it would repeat the code
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
                self._tell(whole)

    def _tell(self, message: bytes) -> None:
        try:
            text = message.decode()
        except UnicodeDecodeError:
            self.drop()
            self._leave()
            return
        if self._on_text is not None:
            self._on_text(text)

    # -- what goes out, and the end

    def _flush(self) -> None:
        if self._transport is not None:
            for data in self._wire.data_to_send():
                if data:  # an empty one stands for the end of the stream
                    self._transport.write(data)

    def _close(self) -> None:
        """The last bytes may still leave, for a moment."""
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
