"""Ending tasks, also those that refuse to end, and waiting for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine

from workspaces.tasks import cancel_within, wait_for_all


async def started(coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(coroutine)
    await asyncio.sleep(0)
    return task


async def refuse(times: int, ends: asyncio.Event) -> None:
    """Goes on although it is cancelled, so many times."""
    for _ in range(times):
        try:
            await ends.wait()
            return
        except asyncio.CancelledError:
            continue
    await ends.wait()


async def test_tasks_are_cancelled_and_their_end_is_awaited() -> None:
    tasks = [await started(asyncio.sleep(60)) for _ in range(3)]

    await cancel_within(tasks, seconds=20)

    assert all(task.cancelled() for task in tasks)
    await cancel_within([], seconds=20)


async def test_a_task_that_refuses_once_is_cancelled_a_second_time() -> None:
    task = await started(refuse(1, asyncio.Event()))

    await cancel_within([task], seconds=0.2)

    assert task.cancelled()


async def test_a_task_that_refuses_twice_is_left_behind() -> None:
    ends = asyncio.Event()
    task = await started(refuse(2, ends))
    began = time.monotonic()

    async with asyncio.timeout(60):
        await cancel_within([task], seconds=0.2)

    assert time.monotonic() - began >= 0.2 - 0.01
    assert not task.done()
    ends.set()
    await task
    assert not task.cancelled()


async def test_waiting_ends_with_the_last_task() -> None:
    ends = [asyncio.Event(), asyncio.Event()]
    tasks = [await started(refuse(0, event)) for event in ends]
    waiting = asyncio.create_task(wait_for_all(tasks, seconds=20))

    ends[0].set()
    await asyncio.wait([tasks[0]])
    await asyncio.sleep(0)
    assert not waiting.done()
    ends[1].set()

    await asyncio.wait_for(waiting, 60)
    await wait_for_all([], seconds=20)


async def test_waiting_ends_after_its_time_and_cancels_nothing() -> None:
    ends = asyncio.Event()
    task = await started(refuse(0, ends))

    await asyncio.wait_for(wait_for_all([task], seconds=0.05), 60)

    assert not task.done()
    ends.set()
    await task


async def test_waiting_ends_when_somebody_is_in_a_hurry() -> None:
    ends, hurried = asyncio.Event(), asyncio.Event()
    task = await started(refuse(0, ends))
    others = asyncio.all_tasks()
    waiting = asyncio.create_task(wait_for_all([task], seconds=20, unless=hurried))
    await asyncio.sleep(0)
    assert not waiting.done()

    hurried.set()
    await asyncio.wait_for(waiting, 60)
    await asyncio.sleep(0)

    assert not task.done()
    ends.set()
    await task
    assert asyncio.all_tasks() <= others  # nothing goes on waiting
