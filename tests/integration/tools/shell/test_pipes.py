"""Pipes of processes: the loop closes each descriptor exactly once, whichever loop it is."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from agents.tools.shell.pipes import connect_reader, connect_writer

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=["standard", "uvloop"])
def make_loop(request: pytest.FixtureRequest) -> MakeLoop:
    return {"standard": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}[request.param]


def test_a_pipe_carries_bytes_both_ways(make_loop: MakeLoop) -> None:
    async def main() -> bytes:
        reads, writes = os.pipe()
        reader, pipe = await connect_reader(reads, limit=1024)
        transport, _ = await connect_writer(writes, asyncio.BaseProtocol)
        transport.write(b"hello")
        transport.close()
        received = await reader.read()
        pipe.close()
        await asyncio.sleep(0)
        return received

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(main()) == b"hello"


def test_closing_a_pipe_closes_no_file_of_another_thread(make_loop: MakeLoop) -> None:
    """A second close of the same number would close what another thread has just opened."""
    lost: list[int] = []
    is_over = threading.Event()

    def open_files() -> None:
        while not is_over.is_set():
            descriptor = os.open(os.devnull, os.O_RDONLY)
            try:
                os.fstat(descriptor)
                os.close(descriptor)
            except OSError as error:
                lost.append(error.errno or 0)

    async def open_and_close_pipes() -> int:
        before = _count_open()
        for _ in range(3_000):
            reads, writes = os.pipe()
            _, pipe = await connect_reader(reads, limit=1024)
            transport, _ = await connect_writer(writes, asyncio.BaseProtocol)
            pipe.close()
            transport.abort()
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        return _count_open() - before

    threads = [threading.Thread(target=open_files) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            left_open = runner.run(open_and_close_pipes())
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert lost == []
    assert left_open <= len(threads)


def _count_open() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())
