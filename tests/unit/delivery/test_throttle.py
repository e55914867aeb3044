"""When a flush comes, by a clock that the test turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from workspaces.delivery.outboxes import FlushThrottle


class FakeHandle:
    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """As much of a loop as a throttle uses."""

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


class Throttled:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.flushes: list[float] = []
        self.throttle = FlushThrottle(
            cast(asyncio.AbstractEventLoop, self.loop), lambda: self.flushes.append(self.loop.now)
        )


@pytest.fixture
def played() -> Throttled:
    return Throttled()


def test_the_first_flush_comes_at_the_end_of_this_turn(played: Throttled) -> None:
    played.throttle.soon(0.5)
    assert played.flushes == []

    played.loop.pass_to(100.0)

    assert played.flushes == [100.0]


def test_what_arrives_meanwhile_leaves_in_one_flush(played: Throttled) -> None:
    for _ in range(5):
        played.throttle.soon(0.5)
    assert len(played.loop.handles) == 1

    played.loop.pass_to(103.0)

    assert played.flushes == [100.0]


def test_the_next_flush_waits_for_the_interval(played: Throttled) -> None:
    played.throttle.soon(0.5)
    played.loop.pass_to(100.0)
    played.loop.pass_to(100.2)
    played.throttle.soon(0.5)

    played.loop.pass_to(100.4)
    assert played.flushes == [100.0]
    played.loop.pass_to(101.0)

    assert played.flushes == [100.0, 100.5]


def test_a_shorter_interval_overrides_a_longer_wait(played: Throttled) -> None:
    played.throttle.soon(0.5)
    played.loop.pass_to(100.0)
    played.throttle.soon(0.5)
    played.throttle.soon(0.1)
    played.throttle.soon(0.3)

    played.loop.pass_to(101.0)

    assert played.flushes == [100.0, 100.1]


def test_an_interval_of_nothing_flushes_at_once(played: Throttled) -> None:
    played.throttle.soon(0.5)
    played.loop.pass_to(100.0)
    played.throttle.soon(0.5)
    played.loop.pass_to(100.1)
    played.throttle.soon(0)

    played.loop.pass_to(100.1)
    played.loop.pass_to(102.0)

    assert played.flushes == [100.0, 100.1]


def test_a_flush_may_ask_for_the_next(played: Throttled) -> None:
    played.throttle = FlushThrottle(cast(asyncio.AbstractEventLoop, played.loop), lambda: flush())

    def flush() -> None:
        played.flushes.append(played.loop.now)
        if len(played.flushes) < 3:
            played.throttle.soon(0.25)

    played.throttle.soon(0.25)
    played.loop.pass_to(105.0)

    assert played.flushes == [100.0, 100.25, 100.5]


def test_a_flush_that_fails_does_not_stop_the_next(played: Throttled) -> None:
    def fail() -> None:
        raise ValueError("no")

    throttle = FlushThrottle(cast(asyncio.AbstractEventLoop, played.loop), fail)
    throttle.soon(0.1)
    with pytest.raises(ValueError, match="no"):
        played.loop.pass_to(100.0)

    throttle.soon(0.1)

    assert [handle.when for handle in played.loop.handles] == [100.1]


def test_a_flush_at_once_does_not_delay_the_next_one(played: Throttled) -> None:
    played.throttle.soon(0.5)
    played.loop.pass_to(100.4)
    played.throttle.soon(0)
    played.loop.pass_to(100.4)

    played.throttle.soon(0.5)
    played.loop.pass_to(102.0)

    assert played.flushes == [100.0, 100.4, 100.5]


def test_nobody_waits_after_a_flush_that_had_to_be_at_once() -> None:
    loop, flushed = FakeLoop(), list[int]()
    throttle = FlushThrottle(cast(Any, loop), lambda: flushed.append(1))
    throttle.soon(0.0)
    loop.handles[-1].call()
    throttle.soon(5.0)
    assert loop.handles[-1].when == loop.now
    loop.handles[-1].call()
    throttle.soon(5.0)
    assert loop.handles[-1].when == loop.now + 5.0  # after a later one they do
