"""A connection of the event loop, as the protocols of Daphne, Twisted and autobahn expect one.

Twisted's own sockets need its reactor, which would have to be moved into our loop through private
names. These protocols need only a transport and a clock, which are public interfaces.

``Flow`` is the back pressure to the application; ``crushsite.asgi.inbox`` that to the peer.
"""

# ruff: noqa: N802  the interfaces have the names that Twisted gave them

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IPushProducer, IReactorTime, ITransport
from twisted.python.failure import Failure
from txaio import tx
from typing_extensions import override
from zope.interface import implementer

from crushsite.asgi.peer import peer_of_socket

# Above this many unsent bytes an application waits.
FULL_BYTES = 64 * 1024

_Failure: Any = Failure


class Exchange:
    """State that the server keeps for a request or a socket."""

    task: asyncio.Task[None] | None = None  # of its application
    closed_at: float | None = None  # when its connection, or its response, ended

    def release_body(self) -> None:
        """Releases the body of the request. May be called repeatedly."""


class Flow:
    """Whether a peer reads what is written to it.

    Writers wait while it does not. A peer that reads nothing for the timeout is stuck; a slow peer
    that reads a little each time is not.
    """

    def __init__(self, unsent: Callable[[], int], write_timeout_seconds: float) -> None:
        self.is_full = False
        self._unsent = unsent
        self._timeout_seconds = write_timeout_seconds
        self._left, self._since = 0, time.monotonic()
        self._waiters: list[asyncio.Future[None]] = []

    def pause(self) -> None:
        self.is_full = True
        self._left, self._since = self._unsent(), time.monotonic()

    def resume(self) -> None:
        """Wakes all writers: the buffer is empty, or the connection is gone."""
        self.is_full = False
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def drained(self) -> None:
        while self.is_full:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def is_stuck(self) -> bool:
        """Whether the peer is stuck. Call it repeatedly while data is unsent."""
        left, now = self._unsent(), time.monotonic()
        if left != self._left:
            self._left, self._since = left, now
        return now - self._since >= self._timeout_seconds


@implementer(ITransport, IPushProducer)
class Transport(asyncio.Protocol):
    """Passes what arrives to ``protocol``, which may replace itself with another protocol."""

    def __init__(
        self, protocol: Any, opened: set[Transport], *, write_timeout_seconds: float
    ) -> None:
        self.protocol = protocol
        self.flow = Flow(self.unsent, write_timeout_seconds)
        # Whether the body of the response ends with the connection.
        self.ends_response = False
        self.idle_seconds = 0  # since data arrived or a request was at work
        self.producer: Any = None  # paused while the peer reads nothing
        self.connected = self.disconnecting = False
        self._opened = opened

    # -- what the event loop calls

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._loop_transport = cast("asyncio.Transport", transport)
        self._loop_transport.set_write_buffer_limits(high=FULL_BYTES, low=0)
        self.socket: socket.socket = transport.get_extra_info("socket")
        self.peer = peer_of_socket(self.socket)  # now: a peer may close before its request is read
        self.connected = True
        self._peer_address = _address(transport.get_extra_info("peername"))
        self._host_address = _address(transport.get_extra_info("sockname"))
        self._opened.add(self)
        self.protocol.makeConnection(self)

    @override
    def data_received(self, data: bytes) -> None:
        self.idle_seconds = 0
        if not self.disconnecting:  # else we read only so that the peer gets our last bytes
            self.protocol.dataReceived(data)

    @override
    def eof_received(self) -> None:
        # Treat a half-closed connection as closed, even if data is unsent.
        self.drop()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.connected = False
        self._opened.discard(self)
        self.flow.resume()
        reason = ConnectionDone() if exc is None else ConnectionLost(str(exc))
        self.protocol.connectionLost(_Failure(reason))

    @override
    def pause_writing(self) -> None:
        self.flow.pause()
        if self.producer is not None:
            self.producer.pauseProducing()

    @override
    def resume_writing(self) -> None:
        self.flow.resume()
        if self.producer is not None:
            self.producer.resumeProducing()

    # -- what the protocols call

    def write(self, data: bytes) -> None:
        if self.connected and not self.disconnecting:
            self._loop_transport.write(data)

    def writeSequence(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def loseConnection(self) -> None:
        """Closes when everything is sent."""
        self.disconnecting = True
        self._loop_transport.close()

    def loseWriteConnection(self) -> None:
        """Closes our direction; what still arrives is discarded."""
        if self.connected and not self.disconnecting:
            self.disconnecting = True
            if self._loop_transport.can_write_eof():  # not with TLS
                self._loop_transport.write_eof()

    def drop(self) -> None:
        """Closes now, without what is unsent; the peer sees an ordinary end."""
        self.disconnecting = True
        self._loop_transport.abort()

    def abortConnection(self) -> None:
        """Closes now; the peer sees that the connection was cut."""
        if self.connected:
            with suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.drop()

    def cut_off(self) -> None:
        """Closes now, and drops what is unsent."""
        if self.ends_response:
            # Readers of such a body, like the clients of ``/v1``, may notice only an ordinary
            # end; a reset would leave them waiting.
            self.drop()
        else:
            # A reset, and no closing chunk: the client sees that the response is incomplete.
            self.abortConnection()

    def unsent(self) -> int:
        """Bytes that the peer has not received, here and in the kernel."""
        if not self.connected:
            return 0
        try:
            answer = fcntl.ioctl(self.socket.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        except OSError:
            answer = b"\0\0\0\0"  # unsupported here: progress is then measured more coarsely
        return self._loop_transport.get_write_buffer_size() + int(struct.unpack("i", answer)[0])

    def registerProducer(self, producer: Any, _streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def pauseProducing(self) -> None:
        if self.connected:
            self._loop_transport.pause_reading()

    def resumeProducing(self) -> None:
        if self.connected and not self._loop_transport.is_closing():
            self._loop_transport.resume_reading()

    def getPeer(self) -> Any:
        return self._peer_address

    def getHost(self) -> Any:
        return self._host_address


def _address(name: Any) -> Any:
    if not isinstance(name, tuple):
        return UNIXAddress(name or None)
    make = IPv4Address if len(name) == 2 else IPv6Address
    return make("TCP", name[0], name[1])


@implementer(IReactorTime)
class Clock:
    """The clock of whichever event loop runs."""

    def seconds(self) -> float:
        return asyncio.get_running_loop().time()

    def callLater(
        self, delay: float, call: Callable[..., object], *args: Any, **kw: Any
    ) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay, partial(call, *args, **kw))


CLOCK = Clock()
_config: Any = tx.config
_config.loop = CLOCK  # else autobahn would install a reactor of Twisted
