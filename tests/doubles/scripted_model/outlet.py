"""Writes chunks straight to a socket."""

from __future__ import annotations

import asyncio

from aiohttp import web


class Outlet:
    """Writes chunks straight to the socket: the body's framing is all that is needed."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})

    async def open(self) -> None:
        self._response.enable_chunked_encoding()
        await self._response.prepare(self._request)
        await self._response.write(b": hello\n\n")  # makes aiohttp send the headers now
        assert self._request.transport is not None
        self._transport = self._request.transport

    def send(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def drain(self) -> None:
        while self._transport.get_write_buffer_size() > 1_000_000:
            await asyncio.sleep(0.005)

    def cut(self) -> web.StreamResponse:
        """Ends the connection in the middle of the body; what was sent still arrives."""
        self._transport.close()
        return web.Response(status=499)

    async def finish(self) -> web.StreamResponse:
        await self._response.write_eof()
        return self._response
