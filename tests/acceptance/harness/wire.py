"""A bare TCP or unix connection: bytes out, bytes back, for what no HTTP client would send."""

import asyncio
import contextlib
import json
from typing import Any
from urllib.parse import urlsplit


class Wire:
    """One connection. Use as an async context manager."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> "Wire":
        if self._url.startswith("unix://"):
            path = self._url.removeprefix("unix://")
            self._reader, self._writer = await asyncio.open_unix_connection(path)
        else:
            parts = urlsplit(self._url)
            self._reader, self._writer = await asyncio.open_connection(parts.hostname, parts.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):  # the server was quicker
            await self._writer.wait_closed()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def request(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> "Reply":
        """One request with its length; the answer."""
        lines = {"Host": "localhost", "Content-Length": str(len(body)), **(headers or {})}
        head = f"{method} {path} HTTP/1.1\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        await self.send(head.encode("latin-1") + b"\r\n" + body)
        return await self.answer()

    async def answer(self, timeout: float = 60) -> "Reply":
        """The next answer on this connection, with its whole body."""
        async with asyncio.timeout(timeout):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status_line, *lines = head.strip().split("\r\n")
            headers = {}
            for line in lines:
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return Reply(int(status_line.split()[1]), headers, body)

    async def until_closed(self, timeout: float = 60) -> bytes:
        """What still comes before the server closes."""
        async with asyncio.timeout(timeout):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""


class Reply:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def message(self) -> str:
        decoded: Any = json.loads(self.body)
        return str(decoded["message"])
