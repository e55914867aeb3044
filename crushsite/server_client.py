"""Finds the server on a data folder by its file, and sends single requests to it or to a named one.

Supports TCP and unix sockets with the standard library alone: most commands look for a server, and
all must start fast. Blocking: call it in threads from an event loop. Independent of the endpoints.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from typing_extensions import override

SERVER_FILE = "server.json"
# Of mode 0600: the owner's token, for commands.
LOCAL_TOKEN_FILE = "local-token"  # noqa: S105  the name of a file
SOCKET_HOST = "api.crush.localhost"  # the Host that a server on a socket file accepts
UNIX = "unix://"
CALL_SECONDS = 60.0
PROBE_TIMEOUT_SECONDS = 3.0
TOKEN_CHARS = 200


class ServerGone(Exception):
    """The server is unreachable, or disconnected during a response."""


class ServerRefused(Exception):
    """The server returned an error status; the sentence is the server's."""

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
    is_temporary: bool = False  # the private server of a prompt, which ends with the prompt
    token: str = field(default="", repr=False)
    ca_file: str = ""  # authorities of the certificate, besides those of this machine
    is_named: bool = False  # by the user: it may be on another machine

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        timeout: float = CALL_SECONDS,
    ) -> Any:
        """Returns the decoded response or ``None``. Raises ``ServerGone``, ``ServerRefused``."""
        connection = self._connection(timeout)
        try:
            answer = self._request(connection, method, path, body, query)
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerGone(f"{self.url}: {_reason(error)}") from error
        finally:
            connection.close()
        return _decoded(answer.status, content)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self.url.startswith(UNIX):
            return _UnixConnection(self.url.removeprefix(UNIX), timeout=timeout)
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            context = tls_context(self.ca_file)
            if not self.is_named:
                # The address comes from our own data folder and leads to this machine. The
                # server's certificate is for its public name.
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        return http.client.HTTPConnection(host, port or 80, timeout=timeout)

    def _request(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str] | None,
    ) -> http.client.HTTPResponse:
        target = f"{path}?{urlencode(query)}" if query else path
        content = None if body is None else json.dumps(body).encode()
        headers = {} if content is None else {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        connection.request(method, target, body=content, headers=headers)
        return connection.getresponse()


def named_server(folder: Path) -> RunningServer | None:
    """The server that the folder's file names, whether or not it still runs."""
    try:
        facts = json.loads((folder / SERVER_FILE).read_bytes())
        url, pid = str(facts["url"]), int(facts["pid"])
        # On a socket file the kernel identifies us.
        token = "" if url.startswith(UNIX) or not _is_own(pid) else read_local_token(folder)
        return RunningServer(url, pid, facts.get("temporary") is True, token)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_local_token(folder: Path) -> str:
    """Returns the owner's token; empty without a file that only we can read and replace."""
    try:
        with (folder / LOCAL_TOKEN_FILE).open(encoding="ascii") as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
                return ""
            return file.read(TOKEN_CHARS).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _is_own(pid: int) -> bool:
    """Whether it is a process of ours: another's may have taken the address of an ended server."""
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return pid > 0


def find_running_server(folder: Path) -> RunningServer | None:
    """The server on this folder, if it responds. A killed server leaves its file behind."""
    server = named_server(folder)
    if server is None:
        return None
    try:
        server.call("GET", "/v1/health", timeout=PROBE_TIMEOUT_SECONDS)
    except (ServerGone, ServerRefused):
        return None
    return server


def in_path(text: str) -> str:
    """An id as one segment of a path."""
    return quote(text, safe="")


def tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Verifies certificates by this machine's authorities and those in the file."""
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(cafile=ca_file)
    return context


def _decoded(status: int, content: bytes) -> Any:
    try:
        decoded = json.loads(content) if content else None
    except ValueError:
        decoded = None
    if 200 <= status < 300:
        return decoded
    fields = decoded if isinstance(decoded, dict) else {}
    sentence = fields.get("message") or fields.get("detail") or ""
    raise ServerRefused(status, str(sentence) or f"the server answered {status}")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the server's certificate is not accepted ({error.verify_message}). If it comes from"
            " an authority of your own, name the authority's file with --ca-file"
        )
    return str(error) or type(error).__name__
