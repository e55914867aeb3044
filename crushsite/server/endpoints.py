"""Where the server listens: ``tcp://HOST:PORT`` and ``unix://PATH``.

Owns the parsing and the socket file's life: it is ours alone (0600), a stale one
is removed only when nobody answers on it and it is a socket of our own user.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from twisted.internet import tcp, unix
from twisted.internet.error import CannotListenError
from typing_extensions import override

_TwistedUnixPort: Any = unix.Port
_TwistedTcpPort: Any = tcp.Port

BACKLOG = 1024
# What the kernel's address structure holds, with its closing NUL, on Linux and macOS.
LONGEST_PATH = 103


class EndpointError(Exception):
    """The server cannot listen there; the message says why."""


@dataclass(frozen=True, slots=True)
class TcpEndpoint:
    host: str
    port: int

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixEndpoint:
    path: str

    @override
    def __str__(self) -> str:
        return f"unix://{self.path}"


Endpoint = TcpEndpoint | UnixEndpoint


def parse_endpoint(text: str) -> Endpoint:
    """Raises ``EndpointError`` naming what is wrong."""
    scheme, separator, rest = text.partition("://")
    if separator and scheme == "unix":
        return _unix(rest)
    if not separator or scheme not in {"tcp", "http"}:
        raise EndpointError(f"{text}: must be tcp://HOST:PORT or unix://PATH")
    try:
        parts = urlsplit(f"tcp://{rest}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise EndpointError(f"{text}: {error}") from None
    if parts.username is not None or parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise EndpointError(f"{text}: must be tcp://HOST:PORT and nothing more")
    if not host or port is None:
        raise EndpointError(f"{text}: must name a host and a port, like tcp://127.0.0.1:8000")
    return TcpEndpoint(host, port)


def _unix(path: str) -> UnixEndpoint:
    if not path.startswith("/"):
        raise EndpointError(f"unix://{path}: the path must be absolute")
    if "\0" in path:
        raise EndpointError("unix://: the path holds a NUL")
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise EndpointError(f"unix://{path}: the path is longer than {LONGEST_PATH} bytes")
    return UnixEndpoint(path)


class Listener:
    """An open endpoint; ``endpoint`` has the real port."""

    def __init__(self, endpoint: Endpoint, port: Any) -> None:
        self.endpoint = endpoint
        self._port = port

    async def close(self) -> None:
        """Stops accepting. Callable twice."""
        port, self._port = self._port, None
        if port is not None:
            stopping = port.stopListening()
            if stopping is not None:
                await stopping.asFuture(asyncio.get_running_loop())


def listen(endpoint: Endpoint, factory: Any, reactor: Any) -> Listener:
    """Begins to accept connections. Raises ``EndpointError``."""
    if isinstance(endpoint, UnixEndpoint):
        return _listen_unix(endpoint, factory, reactor)
    port = _TwistedTcpPort(endpoint.port, factory, BACKLOG, _address_of(endpoint), reactor)
    try:
        port.startListening()
    except CannotListenError as error:
        raise EndpointError(f"{endpoint}: {_reason(error.socketError)}") from None
    return Listener(TcpEndpoint(endpoint.host, port.getHost().port), port)


def _address_of(endpoint: TcpEndpoint) -> str:
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise EndpointError(f"{endpoint}: {error.strerror or error}") from None
    # A name may have both kinds of address; clients try IPv4 for sure.
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return str(found[0][4][0])


def _listen_unix(endpoint: UnixEndpoint, factory: Any, reactor: Any) -> Listener:
    _remove_stale(endpoint)
    port = _UnixPort(endpoint.path, factory, BACKLOG, 0o600, reactor)
    try:
        port.startListening()
    except CannotListenError as error:
        raise EndpointError(f"{endpoint}: {_reason(error.socketError)}") from None
    return Listener(endpoint, port)


def _remove_stale(endpoint: UnixEndpoint) -> None:
    path = Path(endpoint.path)
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise EndpointError(f"{endpoint}: {error.strerror}") from None
    if not stat.S_ISSOCK(found.st_mode):
        raise EndpointError(f"{endpoint}: a file that is not a socket is in the way")
    if found.st_uid != os.geteuid():
        raise EndpointError(f"{endpoint}: the socket there belongs to another user")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(endpoint.path)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)  # its server is gone
        except FileNotFoundError:
            return
        except OSError:
            # A full backlog or a slow server: somebody is there.
            raise EndpointError(f"{endpoint}: {_reason(OSError(errno.EADDRINUSE, ''))}") from None
        else:
            raise EndpointError(f"{endpoint}: {_reason(OSError(errno.EADDRINUSE, ''))}")


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use: another server runs there"
    return error.strerror or str(error)


class _UnixPort(_TwistedUnixPort):  # type: ignore[misc]  # Twisted is untyped here
    """A socket file that nobody else may open for a moment, and that only we remove."""

    _identity: tuple[int, int] | None = None

    @override
    def startListening(self) -> None:
        before = os.umask(0o177)  # bind() makes the file: there is no moment to chmod it in
        try:
            super().startListening()
        finally:
            os.umask(before)
        self._identity = self._found()

    @override
    def connectionLost(self, reason: Any) -> None:
        # Another server may have taken the path over: its socket stays.
        if self._identity is not None and self._found() == self._identity:
            Path(os.fsdecode(self._bindPath)).unlink(missing_ok=True)
        _TwistedTcpPort.connectionLost(self, reason)

    def _found(self) -> tuple[int, int] | None:
        try:
            found = Path(os.fsdecode(self._bindPath)).lstat()
        except OSError:
            return None
        return found.st_dev, found.st_ino
