"""A reader of the native feed that treats its connections roughly: cut at any byte, or not read.

Speaks both transports over a bare socket, because only there are the positions exact and the
receive buffer small. What arrives goes into a `Fold`, which refuses every loss and repeat.
"""

import asyncio
import base64
import json
import os
import random
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from tests.acceptance.folding import Fold
from tests.acceptance.harness.sse import SseParser
from tests.bench.http_body import AnswerReader

TRANSPORTS = ("sse", "ws")
_AT_ONCE = 64 * 1024
_CLOSE = 8


class Decoder(ABC):
    """Bytes of one connection in, items of the feed out."""

    has_ended = False  # the server said that nothing more comes
    close_code: int | None = None  # of a WebSocket

    @abstractmethod
    def feed(self, data: bytes) -> list[Any]: ...


class SseDecoder(Decoder):
    def __init__(self) -> None:
        self._http = AnswerReader()
        self._lines = SseParser()

    def feed(self, data: bytes) -> list[Any]:
        items: list[Any] = []
        body = self._http.feed(data)
        assert self._http.status in (0, 200), (self._http.status, body)
        for frame in self._lines.feed(body):
            if frame.data:
                decoded = json.loads(frame.data)
                items += decoded if isinstance(decoded, list) else [decoded]
        self.has_ended = self._http.complete
        return items


class WsDecoder(Decoder):
    def __init__(self) -> None:
        self._rest = b""
        self._has_begun = False
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[Any]:
        self._rest += data
        if not self._has_begun:
            head, blank, rest = self._rest.partition(b"\r\n\r\n")
            if not blank:
                return []
            assert head.startswith(b"HTTP/1.1 101 "), head
            self._has_begun, self._rest = True, rest
        items: list[Any] = []
        while (frame := self._frame()) is not None:
            assert not self.has_ended, f"something came behind the close: {frame!r}"
            first, payload = frame
            if first & 0x0F < _CLOSE:
                self._pieces.append(payload)
                if first & 0x80:
                    items += json.loads(b"".join(self._pieces))
                    self._pieces = []
            elif first & 0x0F == _CLOSE:
                self.has_ended = True
                self.close_code = int.from_bytes(payload[:2], "big")
        return items

    def _frame(self) -> tuple[int, bytes] | None:
        data, head = self._rest, 2
        if len(data) < 10 and (len(data) < 2 or len(data) < 2 + (data[1] & 0x7F)):
            return None
        size = data[1]
        if size == 126:
            (size,), head = struct.unpack_from(">H", data, 2), 4
        elif size == 127:
            (size,), head = struct.unpack_from(">Q", data, 2), 10
        if len(data) < head + size:
            return None
        self._rest = data[head + size :]
        return data[0], data[head : head + size]


class Connection:
    """One connection; `read` never takes more bytes than it is allowed to."""

    def __init__(self, raw: socket.socket, decoder: Decoder) -> None:
        self._raw = raw
        self._decoder = decoder

    @classmethod
    async def open(
        cls,
        port: int,
        workspace_id: str,
        transport: str,
        *,
        after: int | None,
        by_header: bool = False,
        receive_buffer: int = 0,
        token: str = "",
    ) -> Self:
        query = "" if after is None or by_header else f"?after={after}"
        headers = ""
        if token:
            headers += f"Authorization: Bearer {token}\r\n"
        if by_header and after is not None:
            headers += f"Last-Event-ID: {after}\r\n"
        decoder: Decoder = SseDecoder()
        path = f"/api/workspaces/{workspace_id}/events"
        if transport == "ws":
            decoder = WsDecoder()
            path = f"/api/workspaces/{workspace_id}/stream"
            key = base64.b64encode(os.urandom(16)).decode()
            headers += (
                "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
            )
        return await cls.get(
            port, f"{path}{query}", decoder, headers=headers, receive_buffer=receive_buffer
        )

    @classmethod
    async def get(
        cls, port: int, path: str, decoder: Decoder, *, headers: str = "", receive_buffer: int = 0
    ) -> Self:
        """Any stream by its path."""
        raw = socket.socket()
        if receive_buffer:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        raw.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(raw, ("127.0.0.1", port))
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}\r\n"
        await loop.sock_sendall(raw, head.encode())
        return cls(raw, decoder)

    async def read(self, most: int = _AT_ONCE) -> tuple[list[Any], int]:
        """Items, and how many bytes were read: none at the end of the connection."""
        data = await asyncio.get_running_loop().sock_recv(self._raw, min(most, _AT_ONCE))
        return self._decoder.feed(data), len(data)

    @property
    def has_ended(self) -> bool:
        return self._decoder.has_ended

    @property
    def close_code(self) -> int | None:
        return self._decoder.close_code

    def hurry(self) -> None:
        """From now on as quick as any other."""
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024 * 1024)

    def drop(self) -> None:
        """Gone at once, with a reset."""
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._raw.close()


class RoughReader:
    """One logical reader over any number of connections of one transport."""

    def __init__(
        self, port: int, workspace_id: str, transport: str, *, chance: random.Random
    ) -> None:
        self.transport = transport
        self.fold = Fold()
        self.drops = 0
        self.doubles = 0
        self._port = port
        self._workspace_id = workspace_id
        self._chance = chance

    async def connect(self, *, receive_buffer: int = 0) -> Connection:
        """A connection from the cursor on; `Last-Event-ID` and `?after=` take turns."""
        return await Connection.open(
            self._port,
            self._workspace_id,
            self.transport,
            after=self.fold.number,
            by_header=self._chance.random() < 0.5,
            receive_buffer=receive_buffer,
        )

    async def torture(self, is_over: Callable[[], bool], *, mean_bytes: int) -> None:
        """Comes and goes until it is over."""
        while not is_over():
            if self._chance.random() < 0.05:
                await self._double(mean_bytes)
            else:
                self.fold.returns()
                await self._read_a_while(await self.connect(), self.fold, mean_bytes)

    async def _double(self, mean_bytes: int) -> None:
        """Two connections with one cursor at once: both are told everything."""
        self.fold.returns()
        twin = self.fold.fork()
        one, other = await self.connect(), await self.connect()
        await asyncio.gather(
            self._read_a_while(one, self.fold, mean_bytes),
            self._read_a_while(other, twin, mean_bytes),
        )
        self.doubles += 1
        if twin.number > self.fold.number:
            self.fold = twin

    async def _read_a_while(self, connection: Connection, fold: Fold, mean_bytes: int) -> None:
        left = 1 + int(self._chance.expovariate(1 / mean_bytes))
        try:
            async with asyncio.timeout(self._chance.random() * 0.5):
                while left > 0:
                    items, size = await connection.read(left)
                    for item in items:
                        fold.take(item)
                    if not size:
                        raise AssertionError(f"the server ended a reader's stream: {fold.number}")
                    left -= size
        except TimeoutError:
            pass  # nothing much happens: it goes all the same
        finally:
            connection.drop()
            self.drops += 1

    async def read_to(self, number: int, *, seconds: float = 180) -> None:
        """One whole connection, until this event is here and the stream is live."""
        self.fold.returns()
        connection = await self.connect()
        try:
            async with asyncio.timeout(seconds):
                while not (self.fold.is_live and self.fold.number >= number):
                    items, size = await connection.read()
                    if not size:
                        raise ConnectionResetError("the stream ended")
                    for item in items:
                        self.fold.take(item)
        finally:
            connection.drop()
