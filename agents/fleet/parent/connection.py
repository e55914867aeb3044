"""One WebSocket to a child: sends and reads frames, sends pings, and closes.

It behaves like the published parent: a text that is not a frame is an error for the
caller, and the socket stays usable; pings and binary messages are skipped. Only
WebSocket pings check liveness. Independent of runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from agents.fleet.parent.errors import (
    ChildConnectionLost,
    ChildUnresponsive,
    DialFailed,
    FrameTooLarge,
    Unauthorized,
)
from agents.fleet.wire.codec import read_child_frame, write_frame
from agents.fleet.wire.frames import ChildFrame, ParentFrame

if TYPE_CHECKING:
    import aiohttp


MOST_MESSAGE_BYTES: Final = 64 * 1024 * 1024  # the limit for reading
MOST_FRAME_BYTES: Final = 16 * 1024 * 1024  # the limit of a child
PING_SECONDS: Final = 15.0
_CLOSE_SECONDS = 1.0


class FrameConnection(Protocol):
    """A connection to a child. Only one task at a time may call ``next_frame``."""

    @property
    def is_open(self) -> bool: ...

    async def send(self, frame: ParentFrame) -> None:
        """Sends a frame. Raises ``FleetError``."""

    async def next_frame(self) -> ChildFrame | None:
        """Returns the next frame, or None after the end. Raises ``BadFrame``, ``FleetError``."""

    async def is_answering(self, *, within_seconds: float) -> bool:
        """Whether the child is there. Only between runs."""

    async def close(self) -> None:
        """Closes the connection. Callable twice."""


class ChildConnection:
    """Only one task at a time may call ``next_frame``; any task may call the rest."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        socket: aiohttp.ClientWebSocketResponse,
        *,
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        self._session = session
        self._socket = socket
        self._ping_seconds = ping_seconds
        self._is_pinged = False
        self._is_over = False

    @property
    def is_open(self) -> bool:
        return not self._is_over and not self._socket.closed

    async def send(self, frame: ParentFrame) -> None:
        """Sends a frame. Raises ``ChildConnectionLost``, ``FrameTooLarge``."""
        data = write_frame(frame)
        if len(data) > MOST_FRAME_BYTES:
            raise FrameTooLarge
        if not self.is_open:
            raise ChildConnectionLost
        from aiohttp import WSMsgType  # noqa: PLC0415  already loaded by ``dial``

        await self._sending(self._socket.send_frame(data, WSMsgType.TEXT))

    async def next_frame(self) -> ChildFrame | None:
        """Returns the next frame, or None after the end.

        Raises ``BadFrame`` for a text that is not a frame (the socket stays usable),
        ``ChildConnectionLost``, and ``ChildUnresponsive`` if pings stay unanswered.
        """
        from aiohttp import WSMsgType  # noqa: PLC0415  already loaded by ``dial``

        while not self._is_over:
            try:
                message = await self._socket.receive(timeout=self._ping_seconds)
            except TimeoutError:
                await self._check_liveness()
                continue
            self._is_pinged = False  # any message proves that it is alive
            match message.type:
                case WSMsgType.TEXT:
                    return read_child_frame(message.data)
                case WSMsgType.PING:
                    await self._sending(self._socket.pong(message.data))
                case WSMsgType.ERROR:
                    self._is_over = True
                    raise ChildConnectionLost("The connection to the sub-agent broke.")
                case WSMsgType.CLOSE | WSMsgType.CLOSING | WSMsgType.CLOSED:
                    self._is_over = True
                case _:
                    pass  # binary, pong
        return None

    async def is_answering(self, *, within_seconds: float) -> bool:
        """Whether the child answers a ping. Only between runs: other messages are dropped."""
        from aiohttp import WSMsgType  # noqa: PLC0415  already loaded by ``dial``

        try:
            async with asyncio.timeout(within_seconds):
                await self._socket.ping(b"?")
                while self.is_open:
                    message = await self._socket.receive()
                    if message.type == WSMsgType.PONG:
                        return True
                    if message.type == WSMsgType.PING:
                        await self._socket.pong(message.data)
                    elif message.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
                        self._is_over = True
        except (TimeoutError, OSError):
            pass
        return False

    async def close(self) -> None:
        """Sends an empty close frame and drops the socket without waiting. Callable twice."""
        from aiohttp import WSMsgType  # noqa: PLC0415  already loaded by ``dial``

        if self.is_open:
            self._is_over = True
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._socket.send_frame(b"", WSMsgType.CLOSE)
        self._is_over = True
        await self._session.close()  # drops the socket even if the child still sends
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._socket.close()  # sends nothing more: only releases the socket

    async def _check_liveness(self) -> None:
        if self._is_pinged:
            self._is_over = True
            raise ChildUnresponsive
        self._is_pinged = True
        await self._sending(self._socket.ping())

    async def _sending(self, work: Awaitable[None]) -> None:
        """Sends with a time limit, because a peer that does not read would block for ever."""
        try:
            async with asyncio.timeout(2 * self._ping_seconds):
                await work
        except TimeoutError:
            raise ChildUnresponsive("The sub-agent no longer reads its messages.") from None
        except OSError as error:  # includes aiohttp's connection reset
            raise ChildConnectionLost from error


DIAL_SECONDS: Final = 10.0
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


async def dial(
    endpoint: str,
    *,
    token: str | None = None,
    within_seconds: float = DIAL_SECONDS,
    ping_seconds: float = PING_SECONDS,
    tls: ssl.SSLContext | None = None,
) -> ChildConnection:
    """Connects to a child. Raises ``DialFailed``, or its subclass ``Unauthorized``."""
    import aiohttp  # noqa: PLC0415  not needed before the first child

    check_endpoint(endpoint)
    address = _shown(endpoint)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None),
        middlewares=(follow_nothing,),
    )
    connected = False
    try:
        async with asyncio.timeout(within_seconds):
            socket = await session.ws_connect(
                endpoint,
                headers=headers,
                ssl=tls if tls is not None else True,
                max_msg_size=MOST_MESSAGE_BYTES,
                autoping=False,
                autoclose=False,
                compress=0,
            )
        connected = True
        return ChildConnection(session, socket, ping_seconds=ping_seconds)
    except TimeoutError:
        raise DialFailed(
            f"The sub-agent at {address} did not answer the handshake within {within_seconds:g} s."
        ) from None
    except aiohttp.WSServerHandshakeError as error:
        if error.status in {401, 403}:
            raise Unauthorized from None
        raise DialFailed(
            f"The sub-agent at {address} answered the handshake with status {error.status}."
        ) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise DialFailed(
            f"The sub-agent at {address} cannot be reached ({type(error).__name__})."
        ) from None
    finally:
        if not connected:
            await session.close()


def check_endpoint(endpoint: str, *, must_be_here: bool = False) -> None:
    """Checks that the endpoint is a WebSocket address, and on this machine if it must be.

    Raises ``DialFailed``.
    """
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or len(endpoint) > 4096 or parts.scheme not in {"ws", "wss"}:
        raise DialFailed("The endpoint of a sub-agent must be a ws:// or wss:// address.")
    if must_be_here and host not in _LOOPBACK:
        raise DialFailed(
            "The endpoint in the sub-agent's record is not on this machine, so it is not used."
        )


def _shown(endpoint: str) -> str:
    """Returns the address without user, password and query, which may hold secrets."""
    parts = urlsplit(endpoint)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"[:200]


async def follow_nothing(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    import aiohttp  # noqa: PLC0415  already loaded by ``dial``

    response = await handler(request)
    if 300 <= response.status < 400:
        response.close()
        raise aiohttp.ClientError("redirected")
    return response
