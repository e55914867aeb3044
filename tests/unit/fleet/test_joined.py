"""The connections of remote workers in a process: whose runs they serve, and what they keep."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from agents.fleet.parent.joined import (
    PARSED_HERE_CHARS,
    UNREAD_BYTES,
    UNREAD_FRAMES,
    JoinedConnection,
    RemoteWorkers,
    WorkerHello,
)
from agents.fleet.wire.frames import EventFrame

PLACE = "box:src"
HELLO = WorkerHello("box", "first", ("src",), 1)


async def nothing(_message: MutableMapping[str, Any]) -> None:
    pass


def new_connection() -> JoinedConnection:
    return JoinedConnection(nothing, path=PLACE, hello=HELLO)


def event(value: object) -> str:
    return f'{{"kind": "event", "event": "{value}"}}'


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def workers(calls: list[str]) -> RemoteWorkers:
    return RemoteWorkers(on_free=lambda: calls.append("free"))


async def is_left_waiting(task: asyncio.Task[Any]) -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return not task.done()


async def test_only_free_connections_that_nobody_waits_for_count(
    workers: RemoteWorkers, calls: list[str]
) -> None:
    first, second = new_connection(), new_connection()
    workers.join(first)
    workers.join(second)
    assert workers.free_places == {PLACE: 2}
    assert await workers.take(PLACE) is first
    assert await workers.take(PLACE) is second
    assert workers.free_places == {}

    waiting = asyncio.create_task(workers.take(PLACE))
    assert await is_left_waiting(waiting)
    calls.clear()
    workers.give_back(first)
    assert calls == ["free"]
    assert workers.free_places == {}
    assert await waiting is first
    workers.give_back(first)
    workers.give_back(second)
    assert workers.free_places == {PLACE: 2}


async def test_a_connection_that_has_left_is_released_and_ends_the_waiting(
    workers: RemoteWorkers,
) -> None:
    busy, free = new_connection(), new_connection()
    workers.join(busy)
    workers.join(free)
    assert await workers.take(PLACE) is busy
    free.disconnected()
    assert workers.free_places == {}
    workers.leave(free)
    waiting = asyncio.create_task(workers.take(PLACE))
    assert await is_left_waiting(waiting)
    busy.disconnected()
    workers.leave(busy)
    assert await waiting is None
    workers.give_back(busy)
    assert workers.free_places == {}
    assert workers.connections_of("box") == []


async def test_a_run_reads_nothing_that_came_before_it(workers: RemoteWorkers) -> None:
    connection = new_connection()
    workers.join(connection)
    await connection.receive(event("before all"))
    assert await workers.take(PLACE) is connection
    for number in range(UNREAD_FRAMES):
        await connection.receive(event(number))
    late = asyncio.create_task(connection.receive(event("late")))
    assert await is_left_waiting(late)
    workers.give_back(connection)
    assert await workers.take(PLACE) is connection
    await late

    await connection.receive(event("own"))
    assert await connection.next_frame() == EventFrame("own")
    connection.disconnected()
    assert await connection.next_frame() is None


async def test_a_worker_waits_while_large_frames_are_unread(workers: RemoteWorkers) -> None:
    connection = new_connection()
    workers.join(connection)
    await workers.take(PLACE)
    large = "x" * (UNREAD_BYTES // 2)
    await connection.receive(event(large))
    await connection.receive(event(large))
    third = asyncio.create_task(connection.receive(event("third")))
    assert await is_left_waiting(third)
    assert await connection.next_frame() == EventFrame(large)
    await third
    connection.disconnected()  # what has arrived is still read
    assert await connection.next_frame() == EventFrame(large)
    assert await connection.next_frame() == EventFrame("third")
    assert await connection.next_frame() is None


async def test_a_long_frame_is_parsed_without_holding_up_others(workers: RemoteWorkers) -> None:
    connection = new_connection()
    workers.join(connection)
    await workers.take(PLACE)
    text = "x" * PARSED_HERE_CHARS
    await connection.receive(event(text))
    reading = asyncio.create_task(connection.next_frame())
    await asyncio.sleep(0)  # a frame that is parsed at once would be there now
    assert not reading.done()
    assert await reading == EventFrame(text)
