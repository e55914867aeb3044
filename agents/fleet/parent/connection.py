"""One WebSocket to a child: frames out, frames in, pings, and the way the other side closes.

As the published parent: a text that is no frame is an error to the caller and
the socket stays usable; pings and binary are skipped. Liveness is WebSocket
pings alone. Knows nothing of runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from agents.fleet.parent.errors import (
    ChildConnectionLost,
    ChildIsDeaf,
    DialFailed,
    FrameTooLarge,
    Unauthorized,
)
from agents.fleet.wire import ChildFrame, ParentFrame, read_child_frame, write_frame

if TYPE_CHECKING:
    import aiohttp


MOST_MESSAGE_BYTES: Final = 64 * 1024 * 1024  # what is read at most
MOST_FRAME_BYTES: Final = 16 * 1024 * 1024  # what a child takes in one piece
PING_SECONDS: Final = 15.0
_CLOSE_SECONDS = 1.0


class ChildConnection:
    """``next_frame`` is for one task at a time; the rest may be called from any."""

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
        """Raises ``ConnectionLost``, ``FrameTooLarge``."""
        data = write_frame(frame)
        if len(data) > MOST_FRAME_BYTES:
            raise FrameTooLarge
        if not self.is_open:
            raise ChildConnectionLost
        from aiohttp import WSMsgType  # noqa: PLC0415  loaded by whoever dialled

        await self._sending(self._socket.send_frame(data, WSMsgType.TEXT))

    async def next_frame(self) -> ChildFrame | None:
        """The next frame; None after the end.

        Raises ``BadFrame`` for a text that is none (call again: the socket is
        fine), and ``ConnectionLost``, or ``ChildIsDeaf`` if pings stay unanswered.
        """
        from aiohttp import WSMsgType  # noqa: PLC0415  loaded by whoever dialled

        while not self._is_over:
            try:
                message = await self._socket.receive(timeout=self._ping_seconds)
            except TimeoutError:
                await self._ask_for_life()
                continue
            self._is_pinged = False  # anything it says will do
            match message.type:
                case WSMsgType.TEXT:
                    return read_child_frame(message.data)
                case WSMsgType.PING:
                    await self._sending(self._socket.pong(message.data))
                case WSMsgType.ERROR:
                    self._is_over = True
                    raise ChildConnectionLost("The connection to the child broke.")
                case WSMsgType.CLOSE | WSMsgType.CLOSING | WSMsgType.CLOSED:
                    self._is_over = True
                case _:
                    pass  # binary, pong
        return None

    async def is_answering(self, *, within_seconds: float) -> bool:
        """Whether a ping is answered. Only while no run is on: what comes meanwhile is dropped."""
        from aiohttp import WSMsgType  # noqa: PLC0415  loaded by whoever dialled

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
        """An empty close frame, and the socket dropped without waiting. Callable twice."""
        from aiohttp import WSMsgType  # noqa: PLC0415  loaded by whoever dialled

        if self.is_open:
            self._is_over = True
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._socket.send_frame(b"", WSMsgType.CLOSE)
        self._is_over = True
        await self._session.close()  # drops the socket, whatever the child still sends
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._socket.close()  # nothing can leave any more: it only lets go

    async def _ask_for_life(self) -> None:
        if self._is_pinged:
            self._is_over = True
            raise ChildIsDeaf
        self._is_pinged = True
        await self._sending(self._socket.ping())

    async def _sending(self, work: Awaitable[None]) -> None:
        """A peer that reads nothing must not hold us for ever."""
        try:
            async with asyncio.timeout(2 * self._ping_seconds):
                await work
        except TimeoutError:
            raise ChildIsDeaf("The child takes nothing any more.") from None
        except OSError as error:  # aiohttp's reset is one
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
    """Raises ``DialFailed``, of which ``Unauthorized`` is one."""
    import aiohttp  # noqa: PLC0415  not needed before the first child

    check_endpoint(endpoint)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None),
        middlewares=(_follow_nothing,),
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
        raise DialFailed("The child did not answer the handshake in time.") from None
    except aiohttp.WSServerHandshakeError as error:
        if error.status in {401, 403}:
            raise Unauthorized from None
        raise DialFailed(f"The child answered the handshake with {error.status}.") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise DialFailed(f"The child could not be reached ({type(error).__name__}).") from None
    finally:
        if not connected:
            await session.close()


def check_endpoint(endpoint: str, *, must_be_here: bool = False) -> None:
    """Raises ``DialFailed`` unless it is a WebSocket address, on this machine if it must be."""
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or len(endpoint) > 4096 or parts.scheme not in {"ws", "wss"}:
        raise DialFailed("A child's endpoint must be a ws:// or wss:// address.")
    if must_be_here and host not in _LOOPBACK:
        raise DialFailed("The child's endpoint is not on this machine.")


async def _follow_nothing(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    import aiohttp  # noqa: PLC0415  loaded by the dialling above

    response = await handler(request)
    if 300 <= response.status < 400:
        response.close()
        raise aiohttp.ClientError("redirected")
    return response
