"""One connection of a stream: a WebSocket or server-sent events. It yields what the server sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol

import aiohttp
import orjson

from crushclient.errors import ApiError, error_of
from crushclient.sse import SseParser
from crushclient.stream_fold import StreamBroken
from crushclient.transport import NETWORK_ERRORS, HttpTransport

UNAUTHORISED = 4401
RELEASED = 4409


class ConnectionEnded(Exception):
    """The connection ended; the stream may connect again."""


class StreamConnection(Protocol):
    def batches(self) -> AsyncGenerator[list[Any], None]:
        """Yields the items of each message; an empty list is a heartbeat.

        Raises ``ConnectionEnded``, or ``ApiError`` if another connection would end the same way.
        """

    async def send(self, message: bytes) -> None:
        """Sends a command. Raises ``ConnectionEnded``."""

    async def close(self) -> None: ...


class SocketConnection:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse, idle_seconds: float) -> None:
        self._socket = socket
        self._idle_seconds = idle_seconds

    @classmethod
    async def open(
        cls, transport: HttpTransport, workspace_path: str, query: Mapping[str, str]
    ) -> SocketConnection:
        try:
            socket = await transport.open_socket(f"{workspace_path}/stream", query)
        except aiohttp.WSServerHandshakeError as error:
            raise await _refusal(transport, workspace_path, query, error) from error
        return cls(socket, transport.timeouts.idle_seconds)

    async def batches(self) -> AsyncGenerator[list[Any], None]:
        while True:
            try:
                async with asyncio.timeout(self._idle_seconds):
                    message = await self._socket.receive()
            except TimeoutError:
                raise ConnectionEnded(f"nothing came for {self._idle_seconds:g} s") from None
            except NETWORK_ERRORS as error:
                raise ConnectionEnded(str(error) or type(error).__name__) from error
            if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                yield _items(message.data)
            else:
                raise self._ended(message)

    def _ended(self, message: aiohttp.WSMessage) -> Exception:
        code = self._socket.close_code
        if code == UNAUTHORISED:
            return error_of(
                401,
                {
                    "code": "unauthenticated",
                    "detail": "The credential was revoked, or the right to read was taken away.",
                },
            )
        if code == RELEASED:
            return error_of(
                409,
                {"code": "client_released", "detail": "The client of this stream was released."},
            )
        if isinstance(message.data, BaseException):
            return ConnectionEnded(str(message.data) or type(message.data).__name__)
        return ConnectionEnded(f"the connection was closed with code {code}")

    async def send(self, message: bytes) -> None:
        try:
            await self._socket.send_str(message.decode())
        except NETWORK_ERRORS as error:
            raise ConnectionEnded(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        await self._socket.close()


class SseConnection:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self._parser = SseParser()

    @classmethod
    async def open(
        cls, transport: HttpTransport, workspace_path: str, query: Mapping[str, str]
    ) -> SseConnection:
        return cls(await transport.open_events(f"{workspace_path}/events", query))

    async def batches(self) -> AsyncGenerator[list[Any], None]:
        try:
            async for chunk in self._answer.content.iter_any():
                yield [item for data in self._parser.feed(chunk) for item in _listed(data)]
        except NETWORK_ERRORS as error:
            raise ConnectionEnded(str(error) or type(error).__name__) from error

    async def send(self, message: bytes) -> None:
        raise NotImplementedError("server-sent events take no commands: use a WebSocket")

    async def close(self) -> None:
        self._answer.close()


async def _refusal(
    transport: HttpTransport,
    workspace_path: str,
    query: Mapping[str, str],
    error: aiohttp.WSServerHandshakeError,
) -> ApiError:
    """Returns why a handshake was refused.

    aiohttp drops the body of a refused handshake. The same stream as server-sent events is
    refused with the same sentence.
    """
    try:
        answer = await transport.open_events(f"{workspace_path}/events", query)
    except ApiError as refusal:
        return refusal
    answer.close()
    retry_after = error.headers.get("Retry-After", "") if error.headers is not None else ""
    return error_of(error.status, None, retry_after=retry_after)


def _items(data: str | bytes) -> list[Any]:
    try:
        items = orjson.loads(data)
    except ValueError as error:
        raise StreamBroken(f"the server sent malformed JSON: {error}") from error
    if not isinstance(items, list):
        raise StreamBroken("the server sent a message that is not an array")
    return items


def _listed(data: bytes) -> list[Any]:
    """The items of one event: an object, or an array of deltas."""
    try:
        item = orjson.loads(data)
    except ValueError as error:
        raise StreamBroken(f"the server sent malformed JSON: {error}") from error
    return item if isinstance(item, list) else [item]
