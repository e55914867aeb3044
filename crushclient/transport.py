"""Requests to a server over aiohttp: the session, retries, errors, and the opening of streams."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from yarl import URL

from crushclient.addresses import Address, TlsOptions
from crushclient.errors import ApiError, ConnectionFailed, UnsafeAddress, error_of
from crushclient.retries import RetryPolicy

VERSION = "1.0.0"
LARGEST_FRAME = 256 * 1024 * 1024  # events contain whole messages with their attachments
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT"})
_CLOSE_SECONDS = 2.0

# What aiohttp raises when a connection fails or ends early.
NETWORK_ERRORS = (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError)


@dataclass(frozen=True, slots=True)
class Timeouts:
    connect_seconds: float = 10.0
    request_seconds: float = 60.0  # of one attempt
    idle_seconds: float = 30.0  # of a stream, which has a heartbeat every 10 s


@dataclass(frozen=True, slots=True)
class Reply:
    """``data`` is the decoded JSON, or ``None`` for an empty body or another content type."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    data: Any

    @property
    def etag(self) -> str:
        return self.headers.get("ETag", "")


class HttpTransport:
    def __init__(
        self,
        address: Address,
        *,
        token: str = "",
        tls: TlsOptions | None = None,
        timeouts: Timeouts,
        retry: RetryPolicy,
        allow_unencrypted: bool = False,
    ) -> None:
        if token and not (address.is_encrypted or address.is_local or allow_unencrypted):
            raise UnsafeAddress(
                f"{address.base}: everyone on the network could read the token: use https://"
            )
        self.address = address
        self.timeouts = timeouts
        self.retry = retry
        self._token = token
        self._tls = tls or TlsOptions()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        # Opened with the first request: aiohttp needs a running event loop.
        if self._session is None:
            headers = {
                "User-Agent": f"crushclient/{VERSION} Python/{platform.python_version()}",
                "Accept": "application/json",
            }
            if self._token:
                headers["Authorization"] = f"Bearer {self._token}"
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                headers=headers,
                timeout=aiohttp.ClientTimeout(
                    total=self.timeouts.request_seconds,
                    sock_connect=self.timeouts.connect_seconds,
                ),
                raise_for_status=False,
            )
        return self._session

    def _connector(self) -> aiohttp.BaseConnector:
        if self.address.socket_path is not None:
            return aiohttp.UnixConnector(self.address.socket_path, limit=0)
        if self.address.is_encrypted:
            return aiohttp.TCPConnector(ssl=self._tls.context(), limit=0)
        return aiohttp.TCPConnector(limit=0)

    def url(self, path: str) -> URL:
        # Encoded already: an id may contain any character.
        return URL(self.address.base + path, encoded=True)

    # -- requests

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str | int | bool | None] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str = "",
        is_repeatable: bool = False,
        seconds: float | None = None,
    ) -> Reply:
        """Returns the response. Raises ``ApiError`` or ``ConnectionFailed``.

        Safe requests, PUT, and those with an idempotency key are tried again after a lost
        connection and while the server is unavailable.
        """
        sent_headers = dict(headers or {})
        if idempotency_key:
            sent_headers["Idempotency-Key"] = idempotency_key
        if content is None and body is not None:
            content = orjson.dumps(body)
        if content is not None:
            sent_headers["Content-Type"] = content_type
        may_repeat = is_repeatable or bool(idempotency_key) or method in _REPEATABLE
        failures = 0
        while True:
            try:
                return await self._attempt(
                    method, path, content, _query(query), sent_headers, seconds
                )
            except (ApiError, ConnectionFailed) as error:
                failures += 1
                refused = isinstance(error, ApiError) and not self._may_succeed_later(error)
                if refused or not may_repeat or failures >= self.retry.attempts:
                    raise
                after = error.retry_after_seconds if isinstance(error, ApiError) else None
                await asyncio.sleep(self.retry.pause(failures, retry_after_seconds=after))

    def _may_succeed_later(self, error: ApiError) -> bool:
        # The first request with this key is still being carried out: its response comes then.
        return error.status in self.retry.statuses or error.code == "idempotency_key_in_use"

    async def _attempt(
        self,
        method: str,
        path: str,
        content: bytes | None,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        seconds: float | None,
    ) -> Reply:
        limits = aiohttp.ClientTimeout(
            total=seconds or self.timeouts.request_seconds,
            sock_connect=self.timeouts.connect_seconds,
        )
        try:
            async with self._opened().request(
                method,
                self.url(path),
                params=query,
                data=content,
                headers=headers,
                timeout=limits,
                allow_redirects=False,  # it would take the token along
            ) as answer:
                received = await answer.read()
                reply = Reply(
                    answer.status, answer.headers.copy(), received, _decoded(answer, received)
                )
        except NETWORK_ERRORS as error:
            raise ConnectionFailed(self._sentence(error)) from error
        if 200 <= reply.status < 300 or reply.status == 304:
            return reply
        raise error_of(reply.status, reply.data, retry_after=reply.headers.get("Retry-After", ""))

    async def download(
        self,
        path: str,
        *,
        query: Mapping[str, str | int | bool | None] | None = None,
        seconds: float | None = None,
    ) -> AsyncIterator[bytes]:
        """Yields the content of a response in pieces, as they come.

        Raises ``ApiError`` and ``ConnectionFailed``, also in the middle. Tries only once.
        """
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=self.timeouts.connect_seconds)
        try:
            async with self._opened().get(
                self.url(path), params=_query(query), timeout=limits, allow_redirects=False
            ) as answer:
                if answer.status != 200:
                    received = await answer.read()
                    retry_after = answer.headers.get("Retry-After", "")
                    raise error_of(
                        answer.status, _decoded(answer, received), retry_after=retry_after
                    )
                async for piece in answer.content.iter_any():
                    yield piece
        except NETWORK_ERRORS as error:
            raise ConnectionFailed(self._sentence(error)) from error

    # -- streams

    async def open_socket(
        self, path: str, query: Mapping[str, str]
    ) -> aiohttp.ClientWebSocketResponse:
        """Raises ``aiohttp.WSServerHandshakeError`` and ``ConnectionFailed``."""
        try:
            async with asyncio.timeout(self.timeouts.connect_seconds + self.timeouts.idle_seconds):
                return await self._opened().ws_connect(
                    self.url(path),
                    params=query,
                    max_msg_size=LARGEST_FRAME,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                )
        except aiohttp.WSServerHandshakeError:
            raise
        except NETWORK_ERRORS as error:
            raise ConnectionFailed(self._sentence(error)) from error

    async def open_events(self, path: str, query: Mapping[str, str]) -> aiohttp.ClientResponse:
        """Opens server-sent events. Raises ``ApiError`` and ``ConnectionFailed``."""
        limits = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self.timeouts.connect_seconds,
            sock_read=self.timeouts.idle_seconds,
        )
        try:
            answer = await self._opened().get(
                self.url(path),
                params=query,
                headers={"Accept": "text/event-stream"},
                timeout=limits,
                allow_redirects=False,
                read_bufsize=1024 * 1024,
            )
            if answer.status == 200:
                return answer
            async with answer:
                received = await answer.read()
                retry_after = answer.headers.get("Retry-After", "")
                raise error_of(answer.status, _decoded(answer, received), retry_after=retry_after)
        except NETWORK_ERRORS as error:
            raise ConnectionFailed(self._sentence(error)) from error

    def _sentence(self, error: BaseException) -> str:
        shown = self.address.socket_path or self.address.base
        reason = "it does not answer in time" if isinstance(error, TimeoutError) else str(error)
        return f"the server at {shown} cannot be reached: {reason or type(error).__name__}"


def _query(query: Mapping[str, str | int | bool | None] | None) -> dict[str, str]:
    """Returns the parameters as text; leaves out those that are ``None``."""
    shown = {}
    for name, value in (query or {}).items():
        if value is not None:
            shown[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return shown


def _decoded(answer: aiohttp.ClientResponse, content: bytes) -> Any:
    if not content or "json" not in answer.content_type:
        return None
    try:
        return orjson.loads(content)
    except ValueError:
        return None
