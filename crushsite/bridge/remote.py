"""The server that a bridge leads to: requests to it, and whether the network reaches it.

Every request carries the user's token. A request that surely did not reach the server is sent
again; one that may have reached it only if the server carries it out once.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from multidict import CIMultiDict
from yarl import URL

from workspaces.backoff import Backoff

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0  # a server that sends nothing for this long is out of reach
AGAIN_SECONDS = 0.1  # the pause before a request is sent again, and its limit
LONGEST_PAUSE_SECONDS = 3.0
# After this time without the network a request is answered with an error.
PATIENCE_SECONDS = 30.0
# A connection without the network is found after about 20 s, also while a server sends nothing.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2}
_UNSENT_MS = 20_000
_CERTIFICATE_ERRORS = (
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ClientConnectorSSLError,
    aiohttp.ServerFingerprintMismatch,
)


class OutOfReach(Exception):
    """The network does not lead to the server; the message says why."""

    def __init__(self, sentence: str, *, was_sent: bool = False) -> None:
        super().__init__(sentence)
        self.was_sent = was_sent  # the server may have received the request


class WrongCertificate(OutOfReach):
    """The server at this address cannot prove that it is the one with this name."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request for the remote server."""

    method: str
    target: str  # path and query, as the client wrote them
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    body: bytes = b""
    is_repeatable: bool = False  # twice is the same as once


class RemoteServer:
    """Connections to one server. ``start`` and ``close`` in one running loop."""

    def __init__(
        self,
        url: str,
        *,
        token: str,
        tls: ssl.SSLContext | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        note: Callable[[str], None] = logger.info,
    ) -> None:
        self.url = url.rstrip("/")
        self.is_reached = True
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = tls
        self.patience_seconds = patience_seconds
        self._note = note
        # A connection must not serve two clients: the server takes prompts for the client's that
        # other requests on the connection have named.
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    async def close_client(self, client_id: str) -> None:
        """Closes the connections of a client that has left."""
        if (session := self._sessions.pop(client_id, None)) is not None:
            await session.close()

    @asynccontextmanager
    async def request(
        self, outgoing: Outgoing, *, client_id: str = "", reads_for: float | None = READ_SECONDS
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends once; yields after the response's head. Raises ``OutOfReach``.

        ``reads_for``: the longest time between two parts of the response.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, connect=None, sock_connect=CONNECT_SECONDS, sock_read=reads_for
        )
        with self._explained():
            async with self._session_of(client_id).request(
                outgoing.method,
                URL(self.url + outgoing.target, encoded=True),
                headers=outgoing.headers,
                data=outgoing.body or None,
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                self._reached()
                yield answer

    async def answer_to(
        self, outgoing: Outgoing, *, client_id: str = ""
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Returns a whole response, across a network that fails for a while. Raises ``OutOfReach``."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.patience_seconds
        pauses = Backoff(first_seconds=AGAIN_SECONDS, limit_seconds=LONGEST_PAUSE_SECONDS)
        # Others work as long as they need: a command of the user, a login.
        reads_for = READ_SECONDS if outgoing.method in {"GET", "HEAD"} else None
        while True:
            try:
                async with self.request(
                    outgoing, client_id=client_id, reads_for=reads_for
                ) as answer:
                    return answer, await answer.read()
            except WrongCertificate:
                raise
            except OutOfReach as error:
                is_late = loop.time() > until
                if is_late or (error.was_sent and not outgoing.is_repeatable):
                    raise
            await asyncio.sleep(pauses.next_seconds())

    def _session_of(self, client_id: str) -> aiohttp.ClientSession:
        session = self._sessions.get(client_id)
        if session is None:
            connector = aiohttp.TCPConnector(
                limit=0, ssl=True if self._tls is None else self._tls, socket_factory=_new_socket
            )
            session = self._sessions[client_id] = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                auto_decompress=False,  # the client gets the bytes of the response
                skip_auto_headers=("User-Agent", "Accept-Encoding", "Content-Type"),
            )
        return session

    def _explained(self) -> _Explained:
        return _Explained(self)

    def _reached(self) -> None:
        if not self.is_reached:
            self._note(f"{self.url} is reachable again")
        self.is_reached = True

    def lost(self, sentence: str) -> None:
        if self.is_reached:
            self._note(sentence)
        self.is_reached = False


class _Explained:
    """Turns the errors of connections into ``OutOfReach``."""

    def __init__(self, remote: RemoteServer) -> None:
        self._remote = remote

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, aiohttp.ClientError | OSError):
            return
        found = out_of_reach(self._remote.url, error)
        self._remote.lost(str(found))
        raise found from error


def field_of(body: bytes, name: str) -> str:
    """Returns a text of a JSON object, or ``""`` if the body has none of this name."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def out_of_reach(url: str, error: Exception) -> OutOfReach:
    if isinstance(error, _CERTIFICATE_ERRORS):
        reason = getattr(getattr(error, "certificate_error", None), "verify_message", "") or error
        return WrongCertificate(
            f"{url}: the server's certificate is not accepted ({reason}). If the server has a"
            " certificate of its own authority, name the authority's file with --ca-file."
        )
    reason = str(error) or type(error).__name__
    was_sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    return OutOfReach(f"{url} cannot be reached ({reason}).", was_sent=was_sent)


def _new_socket(address: Any) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options: Mapping[str, int] = {**_KEEPALIVE, "TCP_USER_TIMEOUT": _UNSENT_MS}
    for name, value in options.items():  # as far as the system has them
        with suppress(AttributeError, OSError):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
