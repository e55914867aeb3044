"""A connection to Redis: its address, its protocol (RESP2), and the replies that are due."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from typing_extensions import override

CONNECT_SECONDS = 2.0
REPLY_SECONDS = 1.0  # a connection that owes a reply for this long is replaced
LATE_SECONDS = 0.1  # a little later
REPLY_LIMIT = 512 * 1024 * 1024  # bytes; Redis allows no longer string
DEPTH_LIMIT = 8
# An idle subscription is not dead, so a read has no timeout: TCP finds dead ones.
KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 5000}


class RedisFailed(Exception):
    """Redis cannot be reached, or refuses a command."""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """Where Redis listens, and what it requires."""

    host: str
    port: int
    path: str = ""  # of a socket file, instead of host and port
    username: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None

    @classmethod
    def from_url(cls, url: str) -> RedisServer:
        """Reads ``redis://``, ``rediss://`` or ``unix://``. Raises ``RedisFailed``."""
        parts = urlsplit(url)
        if parts.scheme not in {"redis", "rediss", "unix"}:
            raise RedisFailed("REDIS_URL must begin with redis://, rediss:// or unix://")
        options = dict(parse_qsl(parts.query))
        is_file = parts.scheme == "unix"
        return cls(
            host=parts.hostname or "localhost",
            port=parts.port or 6379,
            path=unquote(parts.path) if is_file else "",
            username=unquote(parts.username or options.get("username", "")),
            password=unquote(parts.password or options.get("password", "")),
            tls=_tls(options) if parts.scheme == "rediss" else None,
        )

    async def connect(self, on_message: Callable[[bytes, bytes], None]) -> RedisLink:
        """Raises ``RedisFailed``."""
        loop = asyncio.get_running_loop()
        link = RedisLink(on_message)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self.path:
                    await loop.create_unix_connection(lambda: link, self.path, ssl=self.tls)
                else:
                    await loop.create_connection(lambda: link, self.host, self.port, ssl=self.tls)
                if self.password:
                    names = [self.username] if self.username else []
                    await link.call("AUTH", *names, self.password)
        except BaseException as error:
            link.close()
            if isinstance(error, TimeoutError):
                raise RedisFailed(f"no answer within {CONNECT_SECONDS:g} s") from None
            if isinstance(error, OSError | ValueError):
                raise RedisFailed(str(error)) from None
            raise
        return link


_FALSE = {"0", "f", "false", "n", "no"}


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    known = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}
    unknown = [name for name in options if name.startswith("ssl_") and name not in known]
    if unknown:
        raise RedisFailed(f"REDIS_URL has the unknown option {unknown[0]}")
    context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
    required = options.get("ssl_cert_reqs", "required")
    is_named = options.get("ssl_check_hostname", "true").lower() not in _FALSE
    if required not in {"none", "optional", "required"}:
        raise RedisFailed("REDIS_URL must have none, optional or required as ssl_cert_reqs")
    context.check_hostname = is_named and required == "required"
    context.verify_mode = ssl.VerifyMode[f"CERT_{required.upper()}"]
    if "ssl_certfile" in options:
        context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    return context


class _Incomplete(Exception):
    """The reply ends behind the bytes so far, not before this position."""

    def __init__(self, end: int) -> None:
        self.end = end


class Replies:
    """Splits the bytes from Redis into replies: bytes, numbers, lists, ``None``, errors."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = self._needed = 0

    def feed(self, data: bytes) -> list[Any]:
        """Returns the replies that are complete now. Raises ``ValueError``."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return []
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        found, at = [], 0
        try:
            while at < len(data):
                reply, at = _reply(data, at)
                found.append(reply)
            self._needed = 0
        except _Incomplete as error:
            self._needed = error.end - at
        self._pieces = [data[at:]] if at < len(data) else []
        self._size = len(data) - at
        return found


def _reply(data: bytes, at: int, depth: int = 0) -> tuple[Any, int]:
    end = data.find(b"\r\n", at)
    if end < 0:
        raise _Incomplete(len(data) + 1)
    kind, rest = data[at : at + 1], data[at + 1 : end]
    at = end + 2
    if kind == b"+":
        return rest, at
    if kind == b"-":
        return RedisFailed(rest.decode(errors="replace")), at
    number = int(rest)
    if kind == b":":
        return number, at
    if number == -1:
        return None, at
    if not 0 <= number <= REPLY_LIMIT or depth > DEPTH_LIMIT:
        raise ValueError("not a reply of Redis")
    if kind == b"$":
        if len(data) < at + number + 2:
            raise _Incomplete(at + number + 2)
        return data[at : at + number], at + number + 2
    if kind != b"*":
        raise ValueError("not a reply of Redis")
    items = []
    for _ in range(number):
        item, at = _reply(data, at, depth + 1)
        items.append(item)
    return items, at


class RedisLink(asyncio.Protocol):
    """One connection. Redis replies in the order of the commands."""

    def __init__(self, on_message: Callable[[bytes, bytes], None]) -> None:
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._replies = Replies()
        self._expected: deque[tuple[asyncio.Future[Any], float]] = deque()  # with their deadlines
        self._watch: asyncio.TimerHandle | None = None
        self._late: asyncio.Future[Any] | None = None  # had no reply at the last look
        self._transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[None] = self._loop.create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        kept: socket.socket = transport.get_extra_info("socket")
        if kept.family != socket.AF_UNIX:
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEP_ALIVE.items():
                if hasattr(socket, name):
                    kept.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    @override
    def data_received(self, data: bytes) -> None:
        try:
            replies = self._replies.feed(data)
        except ValueError:
            self.close()
            return
        for reply in replies:
            if type(reply) is list and len(reply) == 3 and reply[0] == b"message":
                self._on_message(reply[1], reply[2])
            elif self._expected:
                _settle(self._expected.popleft()[0], reply)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes now. Commands without a reply fail. May be called repeatedly."""
        if self._transport is not None:
            self._transport.abort()
        if self._watch is not None:
            self._watch.cancel()
        while self._expected:
            _settle(self._expected.popleft()[0], RedisFailed("the connection was lost"))
        if not self.lost.done():
            self.lost.set_result(None)

    def begin(self, *words: str | bytes) -> asyncio.Future[Any]:
        """Sends a command; returns its reply to come, which may be ``RedisFailed``."""
        reply: asyncio.Future[Any] = self._loop.create_future()
        if self._transport is None or self.lost.done():
            reply.set_result(RedisFailed("the connection was lost"))
            return reply
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        command = b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])
        self._transport.write(b"*%d\r\n%b" % (len(parts), command))
        self._expected.append((reply, self._loop.time() + REPLY_SECONDS))
        if self._watch is None:
            self._watch = self._loop.call_later(REPLY_SECONDS, self._look)
        return reply

    async def call(self, *words: str | bytes) -> Any:
        """Sends a command and returns its reply. Raises ``RedisFailed``."""
        reply = await self.begin(*words)
        if isinstance(reply, RedisFailed):
            raise reply
        return reply

    def _look(self) -> None:
        """Ends a connection that gives no replies; the next command opens another one."""
        self._watch = None
        if not self._expected:
            return
        oldest, due = self._expected[0]
        if due > self._loop.time():
            self._watch = self._loop.call_at(due, self._look)
        elif oldest is self._late:
            self.close()
        else:  # after a pause of this process, its reply may have arrived unread
            self._late = oldest
            self._watch = self._loop.call_later(LATE_SECONDS, self._look)


def _settle(future: asyncio.Future[Any], reply: Any) -> None:
    if not future.done():
        future.set_result(reply)
