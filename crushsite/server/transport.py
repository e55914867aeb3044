"""A connection of the event loop, as the protocols of Daphne, Twisted and autobahn expect one.

Twisted's own sockets need its reactor, which would have to be moved into our loop by its private
names. These protocols need less: something to write to, and a clock. Both are public interfaces.
"""

# ruff: noqa: N802  the interfaces have the names that Twisted gave them

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IPushProducer, IReactorTime, ITransport
from twisted.python.failure import Failure
from txaio import tx
from typing_extensions import override
from zope.interface import implementer

from crushsite.server.backpressure import Flow

# Above this many unsent bytes an application waits.
FULL_BYTES = 64 * 1024

_Failure: Any = Failure


class Exchange:
    """What the server keeps with a request or a socket."""

    task: asyncio.Task[None] | None = None  # of its application
    gone_at: float | None = None  # when its connection, or its response, ended

    def release_body(self) -> None:
        """Nobody has the body of the request any more. Callable often."""


@implementer(ITransport, IPushProducer)
class Transport(asyncio.Protocol):
    """``protocol`` takes what arrives. A protocol may put another one in its place."""

    def __init__(self, protocol: Any, opened: set[Transport], *, patience_seconds: float) -> None:
        self.protocol = protocol
        self.flow = Flow(self.unsent, patience_seconds)
        # The body of its response ends where the connection does.
        self.ends_response = False
        self.producer: Any = None  # is paused while the peer takes nothing
        self.connected = self.disconnecting = False
        self._opened = opened
        self._may_write = True

    # -- what the event loop calls

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._loop_transport = cast("asyncio.Transport", transport)
        self._loop_transport.set_write_buffer_limits(high=FULL_BYTES, low=0)
        self.socket: socket.socket = transport.get_extra_info("socket")
        self.connected = True
        self._opened.add(self)
        self.protocol.makeConnection(self)

    @override
    def data_received(self, data: bytes) -> None:
        if not self.disconnecting:  # else it is only read so that the peer sees our last words
            self.protocol.dataReceived(data)

    @override
    def eof_received(self) -> None:
        # A peer that only closed its own direction is gone as well, whatever is left to send.
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
        if self.connected and self._may_write:
            self._loop_transport.write(data)

    def writeSequence(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def loseConnection(self) -> None:
        """Closes when everything is sent."""
        self._may_write, self.disconnecting = False, True
        self._loop_transport.close()

    def loseWriteConnection(self) -> None:
        """Sends an end of our direction, and reads on without using it."""
        if self.connected and self._may_write:
            self._may_write, self.disconnecting = False, True
            self._loop_transport.write_eof()

    def drop(self) -> None:
        """Closes now, without what is unsent; the peer sees an ordinary end."""
        self._may_write, self.disconnecting = False, True
        self._loop_transport.abort()

    def abortConnection(self) -> None:
        """Closes now; the peer sees that the connection was cut."""
        if self.connected:
            with suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.drop()

    def cut_off(self) -> None:
        """Closes now, whatever the peer has still to take."""
        if self.ends_response:
            # A reader of such a body may notice nothing but an ordinary end, as the clients of
            # ``/v1`` do; a reset would leave them waiting.
            self.drop()
        else:
            # A reset, and no closing chunk: the client sees that the response is incomplete.
            self.abortConnection()

    def unsent(self) -> int:
        """Bytes that the peer has not taken, here and in the kernel."""
        if not self.connected:
            return 0
        try:
            answer = fcntl.ioctl(self.socket.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        except OSError:
            answer = b"\0\0\0\0"  # not on this system: then progress is seen more coarsely
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
        return _address(self._loop_transport.get_extra_info("peername"))

    def getHost(self) -> Any:
        return _address(self._loop_transport.get_extra_info("sockname"))


def _address(name: Any) -> Any:
    if not isinstance(name, tuple):
        return UNIXAddress(name or None)
    make = IPv4Address if len(name) == 2 else IPv6Address
    return make("TCP", name[0], name[1])


class _DelayedCall:
    """A call in the future, which a connection postpones with each byte that arrives."""

    __slots__ = ("_at", "_call", "_handle", "_loop")

    def __init__(self, seconds: float, call: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._call = call
        self._at = self._loop.time() + seconds
        self._handle: asyncio.TimerHandle | None = self._loop.call_at(self._at, self._due)

    def reset(self, seconds: float) -> None:
        # Usually later than before: the timer that runs looks again when it is due.
        self._at = self._loop.time() + seconds
        if self._handle is not None and self._at < self._handle.when():
            self._handle.cancel()
            self._handle = self._loop.call_at(self._at, self._due)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _due(self) -> None:
        if self._at > self._loop.time():
            self._handle = self._loop.call_at(self._at, self._due)
        else:
            self._handle = None
            self._call()


@implementer(IReactorTime)
class Clock:
    """The clock of whichever event loop runs."""

    def seconds(self) -> float:
        return asyncio.get_running_loop().time()

    def callLater(
        self, delay: float, call: Callable[..., object], *args: Any, **kw: Any
    ) -> _DelayedCall:
        return _DelayedCall(delay, lambda: call(*args, **kw))


CLOCK = Clock()
_config: Any = tx.config
_config.loop = CLOCK  # else autobahn would install a reactor of Twisted
