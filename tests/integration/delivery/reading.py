"""What the streams' readers need in tests: frames, and clients that stop reading."""

import asyncio
import json
import socket
from typing import Any

import aiohttp


async def next_frame(answer: aiohttp.ClientResponse) -> str:
    """The next block of the stream that is not a heartbeat."""
    lines: list[str] = []
    async with asyncio.timeout(60):
        while True:
            line = (await answer.content.readline()).decode()
            if not line:
                raise EOFError
            if line != "\n":
                lines.append(line)
            elif lines:
                return "".join(lines)


async def next_envelope(answer: aiohttp.ClientResponse) -> Any:
    return json.loads((await next_frame(answer)).removeprefix("data: "))


async def rest_of(answer: aiohttp.ClientResponse) -> bytes:
    async with asyncio.timeout(60):
        return await answer.content.read()


def narrow_socket(port: int) -> socket.socket:
    """A client whose kernel takes little for it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    return client


async def read_all(client: socket.socket) -> bytes:
    """Everything until the server closes."""
    loop = asyncio.get_running_loop()
    chunks = []
    async with asyncio.timeout(60):
        while chunk := await loop.sock_recv(client, 256 * 1024):
            chunks.append(chunk)
    return b"".join(chunks)


def numbers_in(body: bytes) -> list[int]:
    """The numbers of the events in a native SSE body, chunked or not."""
    return [int(line[4:]) for line in body.split(b"\n") if line.startswith(b"id: ")]
