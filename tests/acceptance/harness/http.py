"""JSON over HTTP with exact expectations: an unexpected status raises with the answer's body."""

import asyncio
import io
import json
import socket
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp


class UnexpectedStatus(AssertionError):
    """The server answered with another status than the test expects."""

    def __init__(self, method: str, path: str, status: int, text: str) -> None:
        super().__init__(f"{method} {path} answered {status}: {text[:2000]}")
        self.status = status
        self.text = text

    @property
    def message(self) -> str:
        """The `message` of an error body."""
        return str(json.loads(self.text)["message"])


class Http:
    """One pool of connections to one server."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`url` may be `unix://PATH`: then clients of terminals name the host as here."""
        self._socket = url.removeprefix("unix://") if url.startswith("unix://") else None
        self.url = "http://api.crush.localhost" if self._socket else url
        self._headers = headers
        self._tls = tls
        self._encrypted: list[socket.socket] = []
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # No limit on connections: a thousand streams may be open. No total timeout: streams stay.
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                connector=self._connector(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=60),
                auto_decompress=True,
            )
        return self._session

    def _connector(self) -> aiohttp.BaseConnector:
        if self._socket is not None:
            return aiohttp.UnixConnector(self._socket, limit=0)
        if self._tls is None:
            return aiohttp.TCPConnector(limit=0)
        return aiohttp.TCPConnector(limit=0, ssl=self._tls, socket_factory=self._new_socket)

    def _new_socket(self, address: Any) -> socket.socket:
        self._encrypted.append(socket.socket(*address[:3]))
        self._encrypted[-1].setblocking(False)
        return self._encrypted[-1]

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        expect: int = 200,
        timeout: float = 60,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The decoded answer, None for an empty body. `body` is sent as JSON, bytes and files as they are."""
        content: dict[str, Any] = {}
        if isinstance(body, bytes | io.BytesIO):
            content["data"] = body
        elif body is not None:
            content["json"] = body
        async with self.session.request(
            method,
            self.url + path,
            params=params,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=timeout),
            **content,
        ) as answer:
            text = await answer.text()
            if answer.status != expect:
                raise UnexpectedStatus(method, path, answer.status, text)
            if not text:
                return None
            return json.loads(text) if "json" in answer.content_type else text

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        async with asyncio.timeout(60):  # TLS ends with messages of its own
            while any(one.fileno() != -1 for one in self._encrypted):
                await asyncio.sleep(0.01)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
