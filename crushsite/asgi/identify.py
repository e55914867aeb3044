"""Finds out who sends each request, once, for everything behind the guard.

A token comes first, then the session of a browser. Without either, a process of the server's own
user on this machine is the owner. A browser never is without a session: any page could make it send
requests. Neither is a proxy, which passes on what others send.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any

from crushsite.asgi.guard import Scope
from crushsite.asgi.peer import Peer, peer_of_tcp
from crushsite.asgi.tool_processes import is_tool
from people.identities import IDENTITIES, SESSION_COOKIE, UNKNOWN_TOKEN, Found, Identities
from people.sign_in_throttle import GUESSES, SignInThrottle
from workspaces.access import (
    ANONYMOUS,
    ANONYMOUS_CALLER,
    OWNER,
    Caller,
    Identity,
    IdentityKind,
    Right,
)

# The server's extension of an ASGI scope: the peer of the connection.
PEER = "crush.peer"

# Browsers and proxies send these; the clients of a person on this machine do not.
_OF_OTHERS = frozenset({b"origin", b"sec-fetch-site", b"forwarded", b"via"})
_OF_PROXIES = b"x-forwarded-"

_BEARER = b"bearer "

LOCAL_SOCKET = "unix"

METRICS_PATH = "/metrics"
# Who sends the token of CRUSH_METRICS_TOKEN_FILE, at that path alone.
METRICS_READER = Identity(
    IdentityKind.TOKEN, name="metrics", is_staff=True, scopes=frozenset({Right.ADMINISTER})
)
ADDRESS_CHARS = 100

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Headers = Iterable[tuple[bytes, bytes]]
LookUp = Callable[[], Awaitable[Found]]


class Identification:
    def __init__(
        self,
        *,
        servers: Callable[[], Collection[int]],
        folder: Path,
        owner: Callable[[], Identity] = lambda: OWNER,
        has_proxy: bool = False,
        proxies: Collection[Network] = (),
        identities: Identities = IDENTITIES,
        guesses: SignInThrottle = GUESSES,
        metrics_token: str = "",
    ) -> None:
        """``servers``: the processes of this server on this machine, whose children are tools.

        ``folder``: the data folder, which names the supervisors of kept commands.
        With ``has_proxy`` no TCP connection makes an owner: anyone may be behind the proxy.
        ``proxies``: those whose ``X-Forwarded-For`` is believed. ``metrics_token``: of the setting,
        known without the database, so that metrics can be read while it is away.
        """
        self._servers = servers
        self._folder = folder
        self._owner = owner
        self._has_proxy = has_proxy
        self._proxies = tuple(proxies)
        self._identities = identities
        self._guesses = guesses
        self._metrics_header = b"Bearer " + metrics_token.encode() if metrics_token else b""
        self._uid = os.geteuid()

    async def caller_of(self, scope: Scope) -> Caller:
        """Returns who sends the request of an HTTP or WebSocket scope."""
        peer = _peer_of(scope)
        test = ANONYMOUS_CALLER.is_tool if peer is None else partial(self._is_tool, peer)
        headers = scope["headers"]
        address = self._address_of(scope, headers)
        if self._reads_metrics(scope.get("path"), headers):
            return Caller(METRICS_READER, address, is_tool=test)
        look_up = self._credential_in(headers)
        if look_up is not None:
            found = await look_up()
            if found is UNKNOWN_TOKEN:
                await self._count_guess(address)
            renew = partial(_renewed, look_up)
            return Caller(found.identity, address, found.reason, is_tool=test, renew=renew)
        if peer is None or not self._is_owner(peer, headers):
            return Caller(ANONYMOUS, address, is_tool=test)
        return Caller(self._owner(), address, is_tool=test)

    def _reads_metrics(self, path: object, headers: Headers) -> bool:
        if path != METRICS_PATH or not self._metrics_header:
            return False
        sent = [value for name, value in headers if name == b"authorization"]
        return len(sent) == 1 and hmac.compare_digest(sent[0], self._metrics_header)

    async def _count_guess(self, address: str) -> None:
        """Raises ``TooManyAttempts``; after the look-up, so that a right token always works."""
        if self._guesses.is_shared:
            await asyncio.to_thread(self._guesses.count_guess, address)
        else:
            self._guesses.count_guess(address)

    def _credential_in(self, headers: Headers) -> LookUp | None:
        """Returns how to look up the identity of the credential, if the request has one."""
        cookies = b""
        for name, value in headers:
            if name == b"authorization":
                if value[: len(_BEARER)].lower() != _BEARER:
                    return _find_no_token
                token = value[len(_BEARER) :].strip().decode("latin-1")
                return partial(self._identities.of_token, token)
            if name == b"cookie":
                cookies = value
        key = _session_in(cookies) if SESSION_COOKIE.encode() in cookies else ""
        return partial(self._identities.of_session, key) if key else None

    def _address_of(self, scope: Scope, headers: Headers) -> str:
        """Where the request comes from: the address of the client, or of what a proxy names."""
        client = scope.get("client")
        if not client or not client[0]:
            return LOCAL_SOCKET
        address = str(client[0])
        if not self._proxies or not self._is_proxy(address):
            return address
        forwarded = [value for name, value in headers if name == b"x-forwarded-for"]
        named = b",".join(forwarded).decode("latin-1").split(",")
        # Each proxy appends the address that it sees; earlier ones may be invented by the client.
        for one in reversed([name.strip() for name in named if name.strip()]):
            address = one
            if not self._is_proxy(one):
                break
        return address[:ADDRESS_CHARS]

    def _is_proxy(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(found in network for network in self._proxies)

    def _is_owner(self, peer: Peer, headers: Headers) -> bool:
        if peer.uid != self._uid or (self._has_proxy and peer.pid is None):
            return False
        return not is_from_others(headers)

    async def _is_tool(self, peer: Peer) -> bool:
        if peer.is_tool is None:
            # Reads all of /proc, some milliseconds: once for a connection, and not in the loop.
            servers = self._servers()
            peer.is_tool = await asyncio.to_thread(is_tool, peer, servers, self._folder)
        return peer.is_tool


async def _find_no_token() -> Found:
    return UNKNOWN_TOKEN


async def _renewed(look_up: LookUp) -> Identity:
    return (await look_up()).identity


def is_from_others(headers: Headers) -> bool:
    """Whether a browser or a proxy has sent these headers."""
    return any(name in _OF_OTHERS or name.startswith(_OF_PROXIES) for name, _ in headers)


def _session_in(cookies: bytes) -> str:
    try:
        found = SimpleCookie(cookies.decode("latin-1")).get(SESSION_COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _peer_of(scope: Scope) -> Peer | None:
    extension = (scope.get("extensions") or {}).get(PEER)
    if extension is not None:
        found: Peer | None = extension["peer"]
        return found
    # Another ASGI server: it does not pass the socket on, but names both ends of a TCP connection.
    client, server = _address(scope.get("client")), _address(scope.get("server"))
    return None if client is None or server is None else peer_of_tcp(client, server)


def _address(end: Any) -> tuple[str, int] | None:
    if not end or not isinstance(end[1], int):
        return None
    return str(end[0]), end[1]
