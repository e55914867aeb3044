"""Where the server listens: ``tcp://HOST:PORT`` and ``unix://PATH``.

Parses addresses and manages the socket file: no other user may open it (0600), and a stale one is
removed only if no server accepts on it and it is a socket of our own user. Independent of the server.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

BACKLOG = 1024
# With its closing NUL this fits the kernel's address structure on Linux and macOS.
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
    """Parses an address. Raises ``EndpointError`` with the reason."""
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
        raise EndpointError(f"{text}: nothing may follow the port in tcp://HOST:PORT")
    if not host or port is None:
        raise EndpointError(f"{text}: must name a host and a port, like tcp://127.0.0.1:8000")
    return TcpEndpoint(host, port)


def _unix(path: str) -> UnixEndpoint:
    if not path.startswith("/"):
        raise EndpointError(f"unix://{path}: the path must be absolute")
    if "\0" in path:
        raise EndpointError("unix://: the path contains a NUL character")
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise EndpointError(f"unix://{path}: the path is longer than {LONGEST_PATH} bytes")
    return UnixEndpoint(path)


class ListeningSocket:
    """A bound socket that listens; ``endpoint`` has the real port."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Binds and listens. Raises ``EndpointError``."""
        if isinstance(endpoint, UnixEndpoint):
            self.socket = _bound_unix(endpoint)
            self.endpoint: Endpoint = endpoint
        else:
            self.socket = _bound_tcp(endpoint)
            self.endpoint = TcpEndpoint(endpoint.host, self.socket.getsockname()[1])
        self.is_unix = isinstance(endpoint, UnixEndpoint)
        self._file = _found(endpoint)
        self.socket.setblocking(False)

    def remove_file(self) -> None:
        """Removes the socket file, unless another server has taken its path over."""
        if isinstance(self.endpoint, UnixEndpoint) and self._file == _found(self.endpoint):
            Path(self.endpoint.path).unlink(missing_ok=True)


def _bound_tcp(endpoint: TcpEndpoint) -> socket.socket:
    family, address = _address_of(endpoint)
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise EndpointError(f"{endpoint}: {_reason(error)}") from None
    return bound


def _address_of(endpoint: TcpEndpoint) -> tuple[socket.AddressFamily, Any]:
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise EndpointError(f"{endpoint}: {error.strerror or error}") from None
    # A name may have both kinds of address; every client tries IPv4.
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return found[0][0], found[0][4]


def _bound_unix(endpoint: UnixEndpoint) -> socket.socket:
    _remove_stale(endpoint)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # bind() creates the file: a chmod afterwards comes too late
    try:
        bound.bind(endpoint.path)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise EndpointError(f"{endpoint}: {_reason(error)}") from None
    finally:
        os.umask(before)
    return bound


def _found(endpoint: Endpoint) -> tuple[int, int] | None:
    if not isinstance(endpoint, UnixEndpoint):
        return None
    try:
        found = Path(endpoint.path).lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _remove_stale(endpoint: UnixEndpoint) -> None:
    path = Path(endpoint.path)
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise EndpointError(f"{endpoint}: {error.strerror}") from None
    if not stat.S_ISSOCK(found.st_mode):
        raise EndpointError(
            f"{endpoint}: another file, which is not a socket, already has this path"
        )
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
            # A full backlog or a slow server: the socket is in use.
            raise EndpointError(f"{endpoint}: {_reason(OSError(errno.EADDRINUSE, ''))}") from None
        else:
            raise EndpointError(f"{endpoint}: {_reason(OSError(errno.EADDRINUSE, ''))}")


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use: another server runs there"
    return error.strerror or str(error)
