"""The server that runs on a data folder, as commands reach it: found by its file, over HTTP.

Speaks over TCP and unix sockets with the standard library alone, because a
command starts for every word that somebody types. Blocking: on an event loop it
is called in threads. Knows no endpoint.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from typing_extensions import override

SERVER_FILE = "server.json"
SOCKET_HOST = "api.crush.localhost"  # the Host that a server on a socket file knows
UNIX = "unix://"
CALL_SECONDS = 60.0
LOOK_SECONDS = 3.0
SILENCE_SECONDS = 60.0  # a stream says something every few seconds
CHUNK = 64 * 1024


class ServerGone(Exception):
    """The server cannot be reached, or left in the middle of an answer."""


class ServerRefused(Exception):
    """The server understood and declined; the sentence is its own."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, *, timeout: float) -> None:
        super().__init__(SOCKET_HOST, timeout=timeout)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except OSError:
            self.sock.close()
            raise


@dataclass(frozen=True, slots=True)
class RunningServer:
    url: str  # http://HOST:PORT or unix://PATH
    pid: int = 0
    is_temporary: bool = False  # a prompt that works without a server, and ends with it

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        timeout: float = CALL_SECONDS,
    ) -> Any:
        """The decoded answer, ``None`` for an empty one. Raises ``ServerGone``, ``ServerRefused``."""
        connection = self._connection(timeout)
        try:
            answer = _request(connection, method, path, body, query)
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerGone(f"{self.url}: {_reason(error)}") from error
        finally:
            connection.close()
        return _decoded(answer.status, content)

    def open_stream(self, path: str, query: Mapping[str, str] | None = None) -> Stream:
        """Returns when the head has come. Raises ``ServerGone``, ``ServerRefused``."""
        connection = self._connection(SILENCE_SECONDS)
        try:
            answer = _request(connection, "GET", path, None, query)
            if answer.status != 200:
                _decoded(answer.status, answer.read())
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ServerGone(f"{self.url}: {_reason(error)}") from error
        except ServerRefused:
            connection.close()
            raise
        return Stream(connection, answer)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self.url.startswith(UNIX):
            return _UnixConnection(self.url.removeprefix(UNIX), timeout=timeout)
        parts = urlsplit(self.url)
        return http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout)


class Stream:
    """An answer without an end. Read by one thread; ``close`` may come from another."""

    def __init__(
        self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse
    ) -> None:
        self._connection = connection
        self._answer = answer
        # The answer takes the socket over; closing a descriptor does not wake its reader.
        self._socket = connection.sock

    def chunks(self) -> Iterator[bytes]:
        """Ends when the server or ``close`` ends it. Raises ``ServerGone``."""
        try:
            while chunk := self._answer.read1(CHUNK):
                yield chunk
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServerGone(_reason(error)) from error
        finally:
            self._connection.close()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def named_server(folder: Path) -> RunningServer | None:
    """The server that the folder's file names, whether or not it lives."""
    try:
        facts = json.loads((folder / SERVER_FILE).read_bytes())
        return RunningServer(str(facts["url"]), int(facts["pid"]), facts.get("temporary") is True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_running_server(folder: Path) -> RunningServer | None:
    """The server on this folder, if it answers. A killed one leaves its file behind."""
    server = named_server(folder)
    if server is None:
        return None
    try:
        server.call("GET", "/v1/health", timeout=LOOK_SECONDS)
    except (ServerGone, ServerRefused):
        return None
    return server


def in_path(text: str) -> str:
    """An id as one segment of a path."""
    return quote(text, safe="")


def _request(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Mapping[str, Any] | None,
    query: Mapping[str, str] | None,
) -> http.client.HTTPResponse:
    target = f"{path}?{urlencode(query)}" if query else path
    content = None if body is None else json.dumps(body).encode()
    headers = {} if content is None else {"Content-Type": "application/json"}
    connection.request(method, target, body=content, headers=headers)
    return connection.getresponse()


def _decoded(status: int, content: bytes) -> Any:
    try:
        decoded = json.loads(content) if content else None
    except ValueError:
        decoded = None
    if 200 <= status < 300:
        return decoded
    sentence = decoded.get("message", "") if isinstance(decoded, dict) else ""
    raise ServerRefused(status, str(sentence) or f"the server answered {status}")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
