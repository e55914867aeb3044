"""The client's end of a WebSocket, reading only: enough to count what a server sends."""

import asyncio
import base64
import os
import struct
import time
from collections.abc import Callable
from typing import cast

from tests.bench.http_client import HttpClient, Refused

_PING, _CLOSE = 9, 8


class _Socket(asyncio.Protocol):
    def __init__(self, receive: Callable[[bytes, float], None]) -> None:
        self.receive = receive
        self.attached: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._rest = b""
        self._message: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.attached.done():
            self.attached.set_exception(Refused(f"connection lost: {exc!r}"))

    def data_received(self, data: bytes) -> None:
        at = time.time()
        data = self._rest + data
        if not self.attached.done():
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._rest = data
                return
            self.attached.set_result(data[:end])
            data = data[end + 4 :]
        position = 0
        while (frame := _frame(data, position)) is not None:
            first, payload, position = frame
            self._take(first, payload, at)
        self._rest = data[position:]

    def _take(self, first: int, payload: bytes, at: float) -> None:
        kind = first & 0x0F
        if kind == _PING:
            self._answer_ping(payload)
        elif kind < _CLOSE:
            self._message.append(payload)
            if first & 0x80:  # the last frame of its message
                whole, self._message = b"".join(self._message), []
                self.receive(whole, at)

    def _answer_ping(self, payload: bytes) -> None:
        # A client's frames are masked; a mask of zeros leaves the bytes as they are.
        assert self._transport is not None
        self._transport.write(bytes((0x8A, 0x80 | len(payload))) + b"\0\0\0\0" + payload)


def _frame(data: bytes, at: int) -> tuple[int, bytes, int] | None:
    """First byte, payload, position after it; None while it is not whole. Servers do not mask."""
    if len(data) - at < 2:
        return None
    size, head = data[at + 1], 2
    if size == 126:
        if len(data) - at < 4:
            return None
        (size,), head = struct.unpack_from(">H", data, at + 2), 4
    elif size == 127:
        if len(data) - at < 10:
            return None
        (size,), head = struct.unpack_from(">Q", data, at + 2), 10
    end = at + head + size
    return (data[at], data[at + head : end], end) if len(data) >= end else None


async def listen(
    http: HttpClient, path: str, receive: Callable[[bytes, float], None]
) -> asyncio.Transport:
    """Return when the handshake is done; then `receive` gets each message's payload."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(
        lambda: _Socket(receive), http.host, http.port
    )
    key = base64.b64encode(os.urandom(16)).decode()
    headers = (
        "Upgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
    )
    transport.write(http.request("GET", path, b"", headers))
    head = await protocol.attached
    if b" 101 " not in head.split(b"\r\n", 1)[0] + b" ":
        raise Refused(f"GET {path}: {head[:200]!r}")
    return transport
