"""When a flush comes, by a clock that the test turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from workspaces.delivery.throttle import Pace


class FakeHandle:
    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """As much of a loop as a pace uses."""

    def __init__(self) -> None:
        self.now = 100.0
        self.handles: list[FakeHandle] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, call: Callable[[], None], *_: Any) -> FakeHandle:
        return self.call_at(self.now, call)

    def call_at(self, when: float, call: Callable[[], None], *_: Any) -> FakeHandle:
        self.handles.append(FakeHandle(when, call))
        return self.handles[-1]

    def pass_to(self, moment: float) -> None:
        while due := [h for h in self.handles if h.when <= moment and not h.is_cancelled]:
            first = min(due, key=lambda handle: handle.when)
            self.handles.remove(first)
            self.now = max(self.now, first.when)
            first.call()
        self.now = moment
        self.handles = [handle for handle in self.handles if not handle.is_cancelled]


class Paced:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.flushes: list[float] = []
        self.pace = Pace(
            cast(asyncio.AbstractEventLoop, self.loop), lambda: self.flushes.append(self.loop.now)
        )


@pytest.fixture
def paced() -> Paced:
    return Paced()


def test_the_first_flush_comes_at_the_end_of_this_turn(paced: Paced) -> None:
    paced.pace.soon(0.5)
    assert paced.flushes == []

    paced.loop.pass_to(100.0)

    assert paced.flushes == [100.0]


def test_what_arrives_meanwhile_leaves_in_one_flush(paced: Paced) -> None:
    for _ in range(5):
        paced.pace.soon(0.5)
    assert len(paced.loop.handles) == 1

    paced.loop.pass_to(103.0)

    assert paced.flushes == [100.0]


def test_the_next_flush_waits_for_the_interval(paced: Paced) -> None:
    paced.pace.soon(0.5)
    paced.loop.pass_to(100.0)
    paced.loop.pass_to(100.2)
    paced.pace.soon(0.5)

    paced.loop.pass_to(100.4)
    assert paced.flushes == [100.0]
    paced.loop.pass_to(101.0)

    assert paced.flushes == [100.0, 100.5]


def test_a_shorter_interval_overrides_a_longer_wait(paced: Paced) -> None:
    paced.pace.soon(0.5)
    paced.loop.pass_to(100.0)
    paced.pace.soon(0.5)
    paced.pace.soon(0.1)
    paced.pace.soon(0.3)

    paced.loop.pass_to(101.0)

    assert paced.flushes == [100.0, 100.1]


def test_an_interval_of_nothing_flushes_at_once(paced: Paced) -> None:
    paced.pace.soon(0.5)
    paced.loop.pass_to(100.0)
    paced.pace.soon(0.5)
    paced.loop.pass_to(100.1)
    paced.pace.soon(0)

    paced.loop.pass_to(100.1)
    paced.loop.pass_to(102.0)

    assert paced.flushes == [100.0, 100.1]


def test_a_flush_may_ask_for_the_next(paced: Paced) -> None:
    paced.pace = Pace(cast(asyncio.AbstractEventLoop, paced.loop), lambda: flush())

    def flush() -> None:
        paced.flushes.append(paced.loop.now)
        if len(paced.flushes) < 3:
            paced.pace.soon(0.25)

    paced.pace.soon(0.25)
    paced.loop.pass_to(105.0)

    assert paced.flushes == [100.0, 100.25, 100.5]


def test_a_flush_that_fails_does_not_stop_the_next(paced: Paced) -> None:
    def fail() -> None:
        raise ValueError("no")

    pace = Pace(cast(asyncio.AbstractEventLoop, paced.loop), fail)
    pace.soon(0.1)
    with pytest.raises(ValueError, match="no"):
        paced.loop.pass_to(100.0)

    pace.soon(0.1)

    assert [handle.when for handle in paced.loop.handles] == [100.1]


def test_a_flush_at_once_does_not_delay_the_next_one(paced: Paced) -> None:
    paced.pace.soon(0.5)
    paced.loop.pass_to(100.4)
    paced.pace.soon(0)
    paced.loop.pass_to(100.4)

    paced.pace.soon(0.5)
    paced.loop.pass_to(102.0)

    assert paced.flushes == [100.0, 100.4, 100.5]


def test_nobody_waits_after_a_flush_that_had_to_be_at_once() -> None:
    loop, flushed = FakeLoop(), list[int]()
    pace = Pace(cast(Any, loop), lambda: flushed.append(1))
    pace.soon(0.0)
    loop.handles[-1].call()
    pace.soon(5.0)
    assert loop.handles[-1].when == loop.now
    loop.handles[-1].call()
    pace.soon(5.0)
    assert loop.handles[-1].when == loop.now + 5.0  # after a paced one they do
