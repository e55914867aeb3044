"""Descriptors are watched as Twisted expects, in the standard loop and in uvloop."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine

import pytest
import uvloop

from crushsite.server.descriptors import DescriptorLoop

LOOPS = [asyncio.SelectorEventLoop, uvloop.new_event_loop]


@pytest.fixture(params=LOOPS, ids=["standard", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[object, object, None]], None]:
    def run_in_loop(main: Coroutine[object, object, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)

    return run_in_loop


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    ours.setblocking(False)
    return ours, theirs


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await event.wait()


def test_a_reset_is_told_to_reader_and_writer(run) -> None:
    async def main() -> None:
        watch = DescriptorLoop(asyncio.get_running_loop())
        ours, theirs = connected()
        read, wrote = asyncio.Event(), asyncio.Event()
        reset(theirs)

        watch.add_reader(ours.fileno(), read.set)
        await soon(read)
        watch.add_writer(ours.fileno(), wrote.set)  # still possible, and told at once
        await soon(wrote)

        assert watch.remove_reader(ours.fileno())
        assert watch.remove_writer(ours.fileno())
        assert not watch.remove_writer(ours.fileno())
        ours.close()
        watch.close()

    run(main())


def test_what_is_ready_goes_on_being_told_until_it_is_taken(run) -> None:
    async def main() -> None:
        watch = DescriptorLoop(asyncio.get_running_loop())
        ours, theirs = connected()
        got: list[bytes] = []
        done = asyncio.Event()

        def take() -> None:
            got.append(ours.recv(1))
            if len(got) == 3:
                done.set()

        watch.add_reader(ours.fileno(), take)
        theirs.send(b"abc")
        await soon(done)

        assert got == [b"a", b"b", b"c"]
        watch.remove_reader(ours.fileno())
        for end in (ours, theirs):
            end.close()
        watch.close()

    run(main())


def test_who_is_ended_by_another_is_not_called(run) -> None:
    async def main() -> None:
        watch = DescriptorLoop(asyncio.get_running_loop())
        pairs = [connected(), connected()]
        called: list[int] = []
        first = asyncio.Event()

        def end_both(name: int) -> None:
            called.append(name)
            for ours, _ in pairs:
                watch.remove_reader(ours.fileno())
            first.set()

        for name, (ours, theirs) in enumerate(pairs):
            theirs.send(b"x")
            watch.add_reader(ours.fileno(), end_both, name)
        await soon(first)
        await asyncio.sleep(0)

        assert len(called) == 1
        for ours, theirs in pairs:
            ours.close()
            theirs.close()
        watch.close()

    run(main())


def test_the_rest_is_the_loops_own(run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        watch = DescriptorLoop(loop)
        called = asyncio.Event()
        watch.call_soon(called.set)
        await soon(called)
        assert watch.is_closed() is False
        watch.close()

    run(main())
