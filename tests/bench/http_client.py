"""HTTP at the least cost to the one who measures: bare asyncio protocols, kept connections.

A library's client takes up to a millisecond for a call, as much as what is measured here. Arrival is
taken when the bytes come in, not when the waiting task gets its turn.
"""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

from tests.bench.http_body import AnswerReader


class Refused(RuntimeError):
    """The server answered with an error."""


class _Call(asyncio.Protocol):
    """One connection: one request at a time, any number one after another."""

    def __init__(self) -> None:
        self.reader = AnswerReader()
        self.body: list[bytes] = []
        self.finished: asyncio.Future[float] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes) -> "asyncio.Future[float]":
        self.reader, self.body = AnswerReader(), []
        self.finished = asyncio.get_running_loop().create_future()
        assert self.transport is not None
        self.transport.write(request)
        return self.finished

    def data_received(self, data: bytes) -> None:
        at = time.perf_counter()
        self.body.append(self.reader.feed(data))
        if self.reader.complete and self.finished is not None and not self.finished.done():
            self.finished.set_result(at)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.finished is not None and not self.finished.done():
            self.finished.set_exception(Refused(f"connection lost: {exc!r}"))


class _Stream(asyncio.Protocol):
    """One endless answer; its body goes to `receive` with the time of arrival."""

    def __init__(self, receive: Callable[[bytes, float], None]) -> None:
        self.reader = AnswerReader()
        self.receive = receive
        self.attached: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        at = time.time()
        body = self.reader.feed(data)
        if self.reader.status and not self.attached.done():
            self.attached.set_result(self.reader.status)
        if body:
            self.receive(body, at)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.attached.done():
            self.attached.set_exception(Refused(f"connection lost: {exc!r}"))


class HttpClient:
    """A pool of connections to one server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self._idle: list[_Call] = []
        self._streams: list[asyncio.BaseTransport] = []

    async def call(self, method: str, path: str, body: Any = None) -> tuple[Any, float]:
        """The decoded answer, and the seconds until it was here."""
        content = b"" if body is None else json.dumps(body).encode()
        connection = await self._connection()
        before = time.perf_counter()
        at = await connection.send(self.request(method, path, content))
        raw = b"".join(connection.body)
        status = connection.reader.status
        self._idle.append(connection)
        if status >= 300:
            raise Refused(f"{method} {path}: {status} {raw[:500].decode(errors='replace')}")
        answer = json.loads(raw) if raw[:1] in b'{["' and raw else None
        return answer, at - before

    async def stream(self, path: str, receive: Callable[[bytes, float], None]) -> None:
        """Return when the head is here; then `receive` is called until `close`."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(
            lambda: _Stream(receive), self.host, self.port
        )
        self._streams.append(transport)
        transport.write(self.request("GET", path, b"", "Accept: text/event-stream\r\n"))
        status = await protocol.attached
        if status != 200:
            raise Refused(f"GET {path}: {status}")

    def request(self, method: str, path: str, content: bytes, headers: str = "") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n{headers}"
        if content or method in ("POST", "PUT"):
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        return head.encode() + b"\r\n" + content

    async def _connection(self) -> _Call:
        while self._idle:
            connection = self._idle.pop()
            if connection.transport is not None and not connection.transport.is_closing():
                return connection
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(_Call, self.host, self.port)
        return made

    async def warm(self, count: int) -> None:
        """Have this many connections open, so that no measured call waits for a handshake."""
        self._idle += [await self._new_connection() for _ in range(count - len(self._idle))]

    async def _new_connection(self) -> _Call:
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(_Call, self.host, self.port)
        return made

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        for connection in self._idle:
            if connection.transport is not None:
                connection.transport.close()
        self._streams, self._idle = [], []
