"""What one process records or streams reaches the others, in order and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from tests.doubles.joined_layer import JOINED_LAYER
from workspaces.delivery.relay import MESSAGE_LIMIT, Relay
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Delta, Output


class Process:
    """A relay, and what it has handed on."""

    def __init__(self, **options: Any) -> None:
        self.heard: list[Any] = []
        self.news = asyncio.Event()
        self.relay = Relay(
            on_event=self._hear,
            on_delta=lambda workspace_id, delta: self._hear((workspace_id, delta)),
            on_output=lambda workspace_id, output: self._hear((workspace_id, output)),
            **options,
        )

    def _hear(self, item: Any) -> None:
        self.heard.append(item)
        self.news.set()

    async def until(self, count: int) -> list[Any]:
        async with asyncio.timeout(60):
            while len(self.heard) < count:
                self.news.clear()
                await self.news.wait()
        return self.heard


@pytest_asyncio.fixture
async def processes(settings: Any) -> AsyncIterator[tuple[Process, Process]]:
    settings.CHANNEL_LAYERS = JOINED_LAYER
    here, there = Process(), Process()
    for process in (here, there):
        await process.relay.start()
        await process.relay.join("w")
    yield here, there
    for process in (here, there):
        await process.relay.stop()


def event(number: int, **payload: Any) -> RecordedEvent:
    return RecordedEvent("w", number, "run.started", "s", payload, orjson.dumps(payload), 5)


async def test_everything_arrives_in_order_and_joined(
    processes: tuple[Process, Process],
) -> None:
    here, there = processes
    items: list[RecordedEvent | Delta | Output] = [
        event(1, a=1),
        Delta(1, 0, 0, "one ", "text"),
        Delta(1, 0, 4, "two", None),
        event(2),
        Delta(2, 0, 0, "x", {"type": "tool_call", "id": "c", "name": "n"}),
    ]
    for item in items:
        here.relay.put("w", item)
    here.relay.put("w", Output("s", "m", "c", "so far"))
    here.relay.put("w", Output("s", "m", "c", "so far, and more"))
    here.relay.put("w", Output("s", "m", "d", "another"))

    assert await there.until(6) == [
        event(1, a=1),
        ("w", Delta(1, 0, 0, "one two", "text")),
        event(2),
        ("w", Delta(2, 0, 0, "x", {"type": "tool_call", "id": "c", "name": "n"})),
        ("w", Output("s", "m", "c", "so far, and more")),
        ("w", Output("s", "m", "d", "another")),
    ]
    assert here.heard == []  # nobody hears himself


async def test_words_that_follow_soon_wait_for_each_other_but_not_for_an_event(
    processes: tuple[Process, Process],
) -> None:
    another, there = processes
    patient = Process(words_seconds=3_600)
    await patient.relay.start()

    patient.relay.put("w", Delta(1, 0, 0, "one", "text"))
    await there.until(1)  # the first word does not wait
    patient.relay.put("w", Delta(1, 0, 3, " two", None))
    another.relay.put("w", event(1))
    await there.until(2)
    patient.relay.put("w", Delta(1, 0, 7, " three", None))
    patient.relay.put("w", event(2))

    assert await there.until(4) == [
        ("w", Delta(1, 0, 0, "one", "text")),
        event(1),
        ("w", Delta(1, 0, 3, " two three", None)),
        event(2),
    ]
    await patient.relay.stop()


async def test_what_is_too_large_is_left_to_the_log(processes: tuple[Process, Process]) -> None:
    here, there = processes
    fits = {"a": "x" * (MESSAGE_LIMIT - len(orjson.dumps({"a": ""})))}
    for number, payload in enumerate(({"a": "x" * MESSAGE_LIMIT}, fits, {}), 1):
        here.relay.put("w", event(number, **payload))
    assert [item.number for item in await there.until(2)] == [2, 3]


async def test_other_workspaces_and_those_that_were_left_are_not_heard(
    processes: tuple[Process, Process],
) -> None:
    here, there = processes
    here.relay.put("other", event(1))
    here.relay.put("w", event(2))
    assert [item.number for item in await there.until(1)] == [2]
    await there.relay.leave("w")
    here.relay.put("w", event(3))
    there.relay.put("w", event(4))
    assert [item.number for item in await here.until(1)] == [4]
    assert len(there.heard) == 1


@pytest.mark.parametrize("is_started", [False, True])
async def test_one_process_alone_relays_nothing(is_started: bool) -> None:
    process = Process()
    if is_started:
        await process.relay.start()
    assert not process.relay.is_needed
    await process.relay.join("w")
    process.relay.put("w", event(1))
    await process.relay.leave("w")
    await process.relay.stop()
    assert process.heard == []
