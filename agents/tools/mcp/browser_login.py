"""A login in a browser: the callers that wait for it, and the local URL to which it returns.

The URL is served only on loopback, for one login at a time, and accepts only requests with the
state of that login: another page can neither end the login nor supply a code.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from agents.tools.mcp.contract import McpFailed

PATH = "/callback"
_HEAD_BYTES = 16 * 1024
_HEAD_SECONDS = 10.0
_CONNECTIONS = 32
_CODE_CHARS = 4_096
_SHOWN_CHARS = 300


class LoginRequest:
    """A requested login, for which several callers may wait."""

    def __init__(self) -> None:
        self._outcome: asyncio.Future[None] | None = None

    @property
    def is_pending(self) -> bool:
        return self._outcome is not None and not self._outcome.done()

    def start(self) -> None:
        if not self.is_pending:
            self._outcome = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """Waits for the requested login. Raises ``McpFailed`` if it fails."""
        if self._outcome is not None:
            await asyncio.shield(self._outcome)

    def succeed(self) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(None)

    def fail(self, failure: McpFailed) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_exception(failure)
            self._outcome.exception()  # retrieved, because no caller may be waiting any longer


@asynccontextmanager
async def callback_server(port: int) -> AsyncIterator[Callback]:
    """Listens on this port, or on any for 0. Raises ``McpFailed`` if the port is in use."""
    callback = Callback()
    servers: list[asyncio.Server] = []
    try:
        for host in ("127.0.0.1", "::1"):
            try:
                server = await asyncio.start_server(
                    callback.serve, host, callback.port or port, limit=_HEAD_BYTES
                )
            except OSError as error:
                if host == "::1":  # not every machine has IPv6
                    continue
                raise McpFailed(
                    f"The port {port} for the login's redirect cannot be opened: {error.strerror}."
                ) from None
            servers.append(server)
            callback.port = server.sockets[0].getsockname()[1]
        yield callback
    finally:
        callback.drop()
        for server in servers:
            server.close()
        for server in servers:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await server.wait_closed()


class Callback:
    def __init__(self) -> None:
        self.port = 0
        self._state = ""
        self._code: asyncio.Future[tuple[str, str | None]] = (
            asyncio.get_running_loop().create_future()
        )
        self._open = 0

    @property
    def address(self) -> str:
        # Use the name, not the number: registered clients have this URL.
        return f"http://localhost:{self.port}{PATH}"

    def expect(self, state: str) -> None:
        """Expects a code for this state: one login may request several codes in turn."""
        self._state = state
        if self._code.done():
            self._code = asyncio.get_running_loop().create_future()

    async def code(self) -> tuple[str, str, str | None]:
        """Waits for the code; returns it, its state and its issuer. Raises ``McpFailed``."""
        code, issuer = await asyncio.shield(self._code)
        return code, self._state, issuer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _CONNECTIONS:
                async with asyncio.timeout(_HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    status, title, text = self._response_to(head)
                    if not writer.is_closing():
                        writer.write(_page(status, title, text))
                        await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            writer.close()

    def _response_to(self, head: bytes) -> tuple[str, str, str]:
        method, _, rest = head.decode("latin-1").partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if method != "GET" or target.path != PATH:
            return "404 Not Found", "Not found", "There is nothing here."
        given = {name: values[0] for name, values in parse_qs(target.query).items()}
        state = given.get("state", "").encode()
        if not self._state or not secrets.compare_digest(state, self._state.encode()):
            return (
                "400 Bad Request",
                "Unknown login",
                "This response belongs to no login in progress.",
            )
        if self._code.done():
            return "200 OK", "Done", "This login is already complete. You may close this page."
        code = given.get("code", "")
        if code and len(code) <= _CODE_CHARS:
            self._code.set_result((code, given.get("iss")))
            return "200 OK", "Logged in", "You may close this page."
        why = (
            given.get("error_description") or given.get("error") or "the response contains no code"
        )
        self._code.set_exception(McpFailed(f"The login was refused: {why[:_SHOWN_CHARS]}"))
        self._code.exception()  # retrieved, because no caller may be waiting any longer
        return "400 Bad Request", "Not logged in", why[:_SHOWN_CHARS]

    def drop(self) -> None:
        self._code.cancel()


def _page(status: str, title: str, text: str) -> bytes:
    body = (
        f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"
        f"<h1>{html.escape(title)}</h1><p>{html.escape(text)}</p>"
    ).encode()
    head = (
        f"HTTP/1.1 {status}\r\n"
        "Content-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Content-Security-Policy: default-src 'none'\r\n"
        "Referrer-Policy: no-referrer\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
    return head + body
