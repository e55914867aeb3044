"""A scripted model in a process of its own, and servers that say given bytes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.llm.connections import close_connections

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def scripted() -> Iterator[str]:
    """The address of a scripted model."""
    program = [sys.executable, "-m", "tests.doubles.scripted_model"]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening "), line
        yield line.split()[1]
        process.terminate()


@pytest.fixture(autouse=True)
async def closed_connections() -> AsyncIterator[None]:
    yield
    await close_connections()


@dataclass
class Spoken:
    """A server that answers every request with the same bytes, then closes."""

    url: str
    requests: list[bytes]


@pytest.fixture
async def speaking() -> AsyncIterator[Callable[[bytes], Awaitable[Spoken]]]:
    async with AsyncExitStack() as stack:

        async def speak(answer: bytes) -> Spoken:
            requests: list[bytes] = []

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                head = await reader.readuntil(b"\r\n\r\n")
                requests.append(head)
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                )
                await reader.readexactly(length)
                writer.write(answer)
                await writer.drain()
                writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            await stack.enter_async_context(server)
            port = server.sockets[0].getsockname()[1]
            return Spoken(f"http://127.0.0.1:{port}/v1", requests)

        yield speak
