"""The HTTP below a distant server: bounded answers, a proxy where one is named, no surprises.

Nothing of this process's own environment steers it: no ``.netrc``, no proxy
variables but the workspace's. A 401 ends the attempt at once unless a person is
logging in, before the protocol's package would register us somewhere.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache

import certifi
import httpx
from typing_extensions import override

from agents.llm.proxies import proxy_for
from agents.tools.mcp.contract import McpFailed, NeedsLogin
from agents.tools.mcp.limits import MAX_MESSAGE_BYTES

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 3_600.0  # of an open stream; calls have a clock of their own
_STREAM = "text/event-stream"
_UNAUTHORIZED = 401
_FORBIDDEN = 403


def client_for(
    url: str,
    *,
    headers: Mapping[str, str],
    env: Mapping[str, str],
    auth: httpx.Auth | None,
    may_log_in: Callable[[], bool],
) -> httpx.AsyncClient:
    """``may_log_in`` is asked when the server refuses us: does a person wait for a login?"""
    inner = httpx.AsyncHTTPTransport(
        verify=_certificates(), proxy=proxy_for(url, env), trust_env=False
    )
    return httpx.AsyncClient(
        headers={**headers, "Accept-Encoding": "identity"},
        auth=auth,
        transport=_Bounded(inner, asks_login=auth is not None, may_log_in=may_log_in),
        timeout=httpx.Timeout(_CONNECT_SECONDS, read=_SILENCE_SECONDS),
        trust_env=False,
        follow_redirects=False,
    )


@cache
def _certificates() -> ssl.SSLContext:
    """Reads files for some 20 ms: made first when the module is loaded, in a thread."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


class _Bounded(httpx.AsyncBaseTransport):
    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        *,
        asks_login: bool,
        may_log_in: Callable[[], bool],
    ) -> None:
        self._inner = inner
        self._asks_login = asks_login
        self._may_log_in = may_log_in

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if self._asks_login and _wants_login(response) and not self._may_log_in():
            await response.aclose()
            raise NeedsLogin
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # Not asked for; a few bytes of it may become any number.
            await response.aclose()
            raise McpFailed("The server packs its answers, which it was asked not to.")
        if isinstance(response.stream, httpx.AsyncByteStream):
            is_stream = response.headers.get("content-type", "").lower().startswith(_STREAM)
            response.stream = _Counted(response.stream, by_event=is_stream)
        return response

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


def _wants_login(response: httpx.Response) -> bool:
    if response.status_code == _FORBIDDEN:
        return "insufficient_scope" in response.headers.get("www-authenticate", "")
    return response.status_code == _UNAUTHORIZED


class _Counted(httpx.AsyncByteStream):
    """Ends an answer, or one event of a stream, that grows beyond all measure."""

    def __init__(self, inner: httpx.AsyncByteStream, *, by_event: bool) -> None:
        self._inner = inner
        self._by_event = by_event

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MAX_MESSAGE_BYTES:
                raise McpFailed(
                    f"The server sent a message of more than {MAX_MESSAGE_BYTES:,} bytes."
                )
            yield chunk
            if self._by_event and (b"\n\n" in chunk or b"\r\n\r\n" in chunk):
                size = 0

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


_certificates()
