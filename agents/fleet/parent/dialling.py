"""Dials a child's endpoint: ``ws`` or ``wss``, with a token where it wants one.

The published parent waits for ever; this one does not. No redirect is followed,
no proxy of the environment used, and no token is ever part of an error.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from agents.fleet.parent.connection import MOST_MESSAGE_BYTES, PING_SECONDS, Connection
from agents.fleet.parent.errors import DialFailed, Unauthorized

if TYPE_CHECKING:
    import aiohttp

DIAL_SECONDS: Final = 10.0
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


async def dial(
    endpoint: str,
    *,
    token: str | None = None,
    within_seconds: float = DIAL_SECONDS,
    ping_seconds: float = PING_SECONDS,
    tls: ssl.SSLContext | None = None,
) -> Connection:
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
        return Connection(session, socket, ping_seconds=ping_seconds)
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
