"""A check of readiness takes a bounded time, and requests cannot make it run more often."""

import asyncio
from collections.abc import Collection

from crushsite.monitoring.readiness import BoundedCheck


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A check that counts how often it runs, and waits until it may end."""

    def __init__(self) -> None:
        self.runs = 0
        self.may_end = asyncio.Event()
        self.found: Collection[str] = ()

    async def __call__(self) -> Collection[str]:
        self.runs += 1
        await self.may_end.wait()
        return self.found


async def test_a_check_that_hangs_fails_in_time_and_runs_once_at_a_time() -> None:
    watched = Watched()
    check = BoundedCheck("disk", watched, seconds=0.01)
    answers = await asyncio.gather(*(check.failing() for _ in range(50)))
    assert answers == [("disk",)] * 50
    assert await check.failing() == ("disk",)
    assert watched.runs == 1
    watched.may_end.set()
    await asyncio.sleep(0)
    assert await check.failing() == ()
    assert watched.runs == 1


async def test_a_result_counts_for_a_moment() -> None:
    clock, watched = Clock(), Watched()
    watched.may_end.set()
    check = BoundedCheck("disk", watched, kept_seconds=1.0, clock=clock)
    for _ in range(20):
        assert await check.failing() == ()
    assert watched.runs == 1
    watched.found = ("disk",)
    clock.now += 1.0
    assert await check.failing() == ("disk",)
    assert watched.runs == 2


async def test_a_check_that_raises_fails_under_its_name() -> None:
    async def broken() -> Collection[str]:
        raise OSError("no such host: secret.example")

    assert await BoundedCheck("channel_layer", broken).failing() == ("channel_layer",)
