"""Waiting for an event with a limit: set, too late, and cancelled at the same moment."""

import asyncio

import pytest

from workspaces.tasks import unless_set, wait_until_set


async def test_it_returns_true_when_the_event_is_set() -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_until_set(event, seconds=20))
    await asyncio.sleep(0)
    event.set()
    assert await waiting is True


async def test_it_returns_false_after_the_limit() -> None:
    assert await wait_until_set(asyncio.Event(), seconds=0.001) is False


async def test_without_a_limit_it_waits_until_the_event_is_set() -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_until_set(event, seconds=None))
    await asyncio.sleep(0)
    assert not waiting.done()
    event.set()
    assert await waiting is True


@pytest.mark.parametrize("ticks", range(4))
@pytest.mark.parametrize("seconds", [None, 0.0, 20.0])
async def test_a_cancellation_is_never_lost(seconds: float | None, ticks: int) -> None:
    """Also when it comes in the tick in which the event is set."""
    event = asyncio.Event()
    rounds = 0

    async def loop_forever() -> None:
        nonlocal rounds
        while True:
            await wait_until_set(event, seconds=seconds)
            event.clear()
            rounds += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(loop_forever())
    await asyncio.sleep(0.001)
    event.set()
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=5)
    if not done:
        task.cancel()  # the lost one; this test must end
    assert done
    assert task.cancelled()


async def test_it_waits_for_work_no_longer_than_the_limit() -> None:
    work = asyncio.get_running_loop().create_future()
    assert await unless_set(work, asyncio.Event(), seconds=0.001) is False
    assert not work.cancelled()


async def test_it_waits_for_work_or_for_an_event() -> None:
    stop, work = asyncio.Event(), asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(unless_set(work, stop))
    await asyncio.sleep(0)
    stop.set()
    assert await waiting is False
    assert not work.cancelled()
    work.set_exception(ValueError())
    assert await unless_set(work, asyncio.Event()) is True
    assert isinstance(work.exception(), ValueError)
