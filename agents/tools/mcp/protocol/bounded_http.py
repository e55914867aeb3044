"""The HTTP transport of a remote server, with bounded responses and the workspace's proxy.

This process's own environment has no effect on it: no ``.netrc``, and no proxy
variables except the workspace's. A 401 ends the attempt at once unless a person is
logging in, before the protocol's package can register a client. When a request needs
more rights than the login has, only that request fails. The refusal is kept for the
next login, which then requests these rights.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from functools import cache

import certifi
import httpx2
from typing_extensions import override

from agents.llm.http_request import proxy_for
from agents.tools.mcp.contract import McpFailed, NeedsLogin
from agents.tools.mcp.limits import MAX_MESSAGE_BYTES
from agents.tools.mcp.protocol.attempt import McpAttempt
from agents.tools.mcp.protocol.login import Login

MORE_RIGHTS = -32403  # the code of the response that replaces the server's 403

_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 3_600.0  # of an open stream; calls have their own timeout
_STREAM = "text/event-stream"
_CHALLENGE = "www-authenticate"
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_NOT_FOUND = 404
_REDIRECT = 300


def client_for(attempt: McpAttempt, *, auth: httpx2.Auth | None) -> httpx2.AsyncClient:
    settings = attempt.settings
    inner = httpx2.AsyncHTTPTransport(
        verify=_certificates(), proxy=proxy_for(settings.url, attempt.env), trust_env=False
    )
    return httpx2.AsyncClient(
        headers={**settings.headers, "Accept-Encoding": "identity"},
        auth=auth,
        transport=_BoundedBody(inner, attempt),
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=_IDLE_SECONDS),
        trust_env=False,
        follow_redirects=False,
    )


@cache
def _certificates() -> ssl.SSLContext:
    """Loads the certificates: it takes 20 ms, so the import does it first, in a thread."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


class _BoundedBody(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, attempt: McpAttempt) -> None:
        self._inner = inner
        self._attempt = attempt

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        login = self._attempt.login
        if login is not None and login.is_interactive and login.refusal:
            # The package requests the rights that a refusal names, so it gets the kept one first.
            refusal, login.refusal = login.refusal, ""
            return httpx2.Response(_FORBIDDEN, headers={_CHALLENGE: refusal})
        response = await self._inner.handle_async_request(request)
        self._attempt.status = response.status_code if response.status_code >= _REDIRECT else 0
        if response.status_code == _NOT_FOUND and "mcp-session-id" in request.headers:
            self._attempt.lost_session = True
        if login is not None:
            refused = await self._refused(response, login)
            if refused is not None:
                return refused
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # It was not requested, and a few bytes may decompress to any size.
            await response.aclose()
            raise self._attempt.fail(
                McpFailed("The server compresses its answers although the request refused that.")
            )
        if isinstance(response.stream, httpx2.AsyncByteStream):
            is_stream = response.headers.get("content-type", "").lower().startswith(_STREAM)
            response.stream = _Counted(response.stream, self._attempt, by_event=is_stream)
        return response

    async def _refused(self, response: httpx2.Response, login: Login) -> httpx2.Response | None:
        """Returns a response that replaces the server's refusal, or ``None`` to keep its own.

        Raises ``NeedsLogin`` for a 401 when no person is logging in.
        """
        challenge = response.headers.get(_CHALLENGE, "")
        if response.status_code == _UNAUTHORIZED:
            if not self._attempt.may_log_in():
                await response.aclose()
                raise NeedsLogin
            return None
        if response.status_code != _FORBIDDEN or "insufficient_scope" not in challenge:
            return None
        if login.is_interactive:
            return None
        await response.aclose()
        login.refusal = challenge
        error = {"code": MORE_RIGHTS, "message": "insufficient scope"}
        return httpx2.Response(_FORBIDDEN, json={"jsonrpc": "2.0", "id": None, "error": error})

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    """Ends a response, or one event of a stream, that exceeds the size limit."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, attempt: McpAttempt, *, by_event: bool
    ) -> None:
        self._inner = inner
        self._attempt = attempt
        self._by_event = by_event

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MAX_MESSAGE_BYTES:
                raise self._attempt.fail(
                    McpFailed(
                        f"The server sent a message of more than {MAX_MESSAGE_BYTES:,} bytes."
                    )
                )
            yield chunk
            if self._by_event and (b"\n\n" in chunk or b"\r\n\r\n" in chunk):
                size = 0

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


_certificates()
