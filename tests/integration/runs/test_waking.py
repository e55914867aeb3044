"""What those who nudge rely on, for each way to wake workers: the contract of ``WakeWorkers``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from channels.layers import InMemoryChannelLayer, channel_layers

from agents.runs.nudges import GROUP, WakeHere, WakeOverLayer, WakeWorkers

ONE = {"type": "run.accepted"}
OTHER = {"type": "run.cancelled", "session_id": "s", "up_to": 1}


class BrokenLayer(InMemoryChannelLayer):
    """Of a server that has lost its Redis."""

    async def group_send(self, _group: str, _message: Any) -> None:
        raise ConnectionError("away")


@dataclass
class Way:
    """A way to wake workers, and what a worker has got."""

    wake: WakeWorkers
    heard: list[dict[str, Any]] = field(default_factory=list)

    async def hears(self, count: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(30):
            while len(self.heard) < count:
                await asyncio.sleep(0.001)
        return self.heard


@asynccontextmanager
async def here() -> AsyncIterator[Way]:
    ways = WakeHere()
    way = Way(ways)
    ways.listeners.append(way.heard.append)
    yield way


@asynccontextmanager
async def over_layer() -> AsyncIterator[Way]:
    layer = InMemoryChannelLayer()
    before = channel_layers.set("default", layer)
    channel = await layer.new_channel()
    await layer.group_add(GROUP, channel)
    way = Way(WakeOverLayer(WakeHere()))

    async def listen() -> None:
        while True:
            way.heard.append(await layer.receive(channel))

    listening = asyncio.create_task(listen())
    yield way
    listening.cancel()
    channel_layers.set("default", before)


@asynccontextmanager
async def here_without_workers() -> AsyncIterator[Way]:
    yield Way(WakeHere())


@asynccontextmanager
async def over_broken_layer() -> AsyncIterator[Way]:
    before = channel_layers.set("default", BrokenLayer())
    yield Way(WakeOverLayer(WakeHere()))
    channel_layers.set("default", before)


WAYS = [here, over_layer]
LOST = [here_without_workers, over_broken_layer]
Open = Callable[[], Any]


@pytest.mark.parametrize("opened", WAYS)
async def test_a_worker_gets_the_messages_of_each_key(opened: Open) -> None:
    async with opened() as way:
        way.wake.wake("", ONE)
        way.wake.wake("s", OTHER)
        assert sorted(await way.hears(2), key=str) == sorted([ONE, OTHER], key=str)


@pytest.mark.parametrize("opened", WAYS)
async def test_a_worker_gets_the_newest_message_of_a_key(opened: Open) -> None:
    async with opened() as way:
        for number in range(20):
            way.wake.wake("s", OTHER | {"up_to": number})
        async with asyncio.timeout(30):
            while not way.heard or way.heard[-1]["up_to"] != 19:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize("opened", WAYS)
async def test_a_message_that_is_waited_for_is_there_at_once(opened: Open) -> None:
    async with opened() as way:
        await way.wake.wake_now(OTHER)
        assert await way.hears(1) == [OTHER]


@pytest.mark.parametrize("opened", LOST)
async def test_a_message_that_nobody_gets_is_lost_without_an_error(opened: Open) -> None:
    async with opened() as way:
        way.wake.wake("s", OTHER)
        await way.wake.wake_now(ONE)
        assert way.heard == []


async def test_a_layer_that_reaches_only_this_process_is_not_used_for_its_own_worker() -> None:
    layer = InMemoryChannelLayer()
    before = channel_layers.set("default", layer)
    own = WakeHere()
    own.listeners.append(lambda _: None)
    await WakeOverLayer(own).wake_now(ONE)
    WakeOverLayer(own).wake("", ONE)
    assert layer.channels == {}
    channel_layers.set("default", before)
