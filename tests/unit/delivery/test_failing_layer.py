"""A channel layer that fails is complained about and tried again, and holds up nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from channels.layers import get_channel_layer

from tests.doubles.failing_layer import FAILING_LAYER, FailingLayer
from tests.unit.delivery.test_relay import Process, event
from workspaces.delivery.relay import group_of
from workspaces.log.types import Delta, Output


@pytest.fixture
def layer(settings: Any) -> FailingLayer:
    settings.CHANNEL_LAYERS = FAILING_LAYER
    layer = get_channel_layer()
    assert isinstance(layer, FailingLayer)
    return layer


@pytest_asyncio.fixture
async def processes(layer: FailingLayer) -> AsyncIterator[tuple[Process, Process]]:
    here, there = Process(), Process()
    for process in (here, there):
        await process.relay.start()
    yield here, there
    for process in (here, there):
        await process.relay.stop()


async def failed(layer: FailingLayer, times: int) -> None:
    async with asyncio.timeout(60):
        while layer.failures < times:
            await asyncio.sleep(0.002)


async def test_a_group_is_joined_once_the_layer_works_again(
    layer: FailingLayer, processes: tuple[Process, Process], caplog: pytest.LogCaptureFixture
) -> None:
    here, there = processes
    layer.error = ConnectionError("refused")
    await there.relay.join("w")
    await failed(layer, 3)
    assert "the channel layer failed: refused" in caplog.text
    layer.error = None
    async with asyncio.timeout(60):
        while not layer.members(group_of("w")):
            await asyncio.sleep(0.002)

    here.relay.put("w", event(1))

    assert await there.until(1) == [event(1)]


async def test_who_leaves_does_not_join_later(
    layer: FailingLayer, processes: tuple[Process, Process]
) -> None:
    before = asyncio.all_tasks()
    _, there = processes
    layer.error = TimeoutError()
    await there.relay.join("w")
    (joining,) = asyncio.all_tasks() - before

    await there.relay.leave("w")
    layer.error = None

    await asyncio.wait([joining], timeout=10)
    assert joining.cancelled()
    assert layer.members(group_of("w")) == set()


async def test_a_group_that_was_joined_is_not_joined_again(
    layer: FailingLayer, processes: tuple[Process, Process]
) -> None:
    before = asyncio.all_tasks()

    await processes[0].relay.join("w")

    assert len(layer.members(group_of("w"))) == 1
    assert asyncio.all_tasks() == before


async def test_leaving_a_layer_that_fails_is_complained_about(
    layer: FailingLayer, processes: tuple[Process, Process], caplog: pytest.LogCaptureFixture
) -> None:
    _, there = processes
    await there.relay.join("w")
    layer.error = ConnectionError("refused")

    await there.relay.leave("w")

    assert "the channel layer failed: refused" in caplog.text


async def test_stopping_ends_every_task(
    layer: FailingLayer, caplog: pytest.LogCaptureFixture
) -> None:
    before = asyncio.all_tasks()
    process = Process()
    await process.relay.start()
    layer.error = TimeoutError()
    await process.relay.join("w")
    assert "the channel layer failed: no answer within 1 s" in caplog.text

    await process.relay.stop()

    assert asyncio.all_tasks() == before
    process.relay.put("w", event(1))
    assert process.relay._outbox == {}  # nobody would send it


async def test_what_comes_after_a_failure_is_sent_and_received(
    layer: FailingLayer, processes: tuple[Process, Process]
) -> None:
    here, there = processes
    await there.relay.join("w")
    layer.error = ConnectionError("refused")
    here.relay.put("w", event(1))
    here.relay.put("w", Output("s", "m", "c", "lost"))
    await failed(layer, 1)  # it is not sent
    layer.error = None
    here.relay.put("w", event(2))
    assert await there.until(1) == [event(2)]

    for channel in layer.members(group_of("w")):
        layer.error = ConnectionError("refused")
        await layer.send(channel, {})
    await failed(layer, 2)  # it is not received
    layer.error = None
    here.relay.put("w", Delta(2, 0, 0, "words", "text"))
    assert await there.until(2) == [event(2), ("w", Delta(2, 0, 0, "words", "text"))]


async def test_before_its_start_a_process_joins_nothing_and_sends_nothing(
    layer: FailingLayer,
) -> None:
    process = Process()
    assert process.relay.is_needed

    await process.relay.join("w")
    process.relay.put("w", event(1))
    await process.relay.leave("w")
    await process.relay.stop()

    assert layer.members(group_of("w")) == set()
