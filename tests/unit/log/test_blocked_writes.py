"""Which blocked writes are tried when, and in which order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from workspaces.backoff import FIRST_SECONDS, Backoff
from workspaces.log.blocked_writes import Blocked, BlockedWrites, QueuedWrite
from workspaces.log.deadlines import limit_for_process
from workspaces.log.failures import DatabaseFailure
from workspaces.log.outage import outage


@pytest.fixture(autouse=True)
def _no_outage() -> Iterator[None]:
    yield
    outage.report_end()
    limit_for_process(None)


def write(workspace_id: str = "w", *, until: float | None = None) -> QueuedWrite[Any]:
    return QueuedWrite(workspace_id, lambda tx: None, None, Future(), until)


def make_due(blocked: BlockedWrites) -> None:
    for group in blocked.groups():
        group.due_at = time.monotonic()


def waits(group: Blocked, times: int, *, since: float) -> bool:
    """Whether the group's wait, which began after ``since``, is the one of so many tries."""
    longest = FIRST_SECONDS * 2 ** (times - 1)
    return group.due_at - since >= 0.75 * longest and group.due_at - time.monotonic() <= longest


def test_nothing_is_blocked_at_first() -> None:
    blocked = BlockedWrites()

    assert not blocked
    assert blocked.seconds_until_due() is None
    assert blocked.groups() == []
    assert not blocked.takes(write())
    assert list(blocked.due()) == []


def test_a_blocked_lane_keeps_its_writes_in_order_and_no_others() -> None:
    blocked = BlockedWrites()
    first, second, third = write(), write(), write()
    blocked.block_lane("w", [first], DatabaseFailure.LOCKED)

    assert blocked
    assert blocked.everything is None
    assert blocked.takes(second)
    assert not blocked.takes(write("other"))
    assert not blocked.takes(write(""))  # without a workspace each write has its own lane
    (group,) = blocked.groups()
    assert group.writes == [first, second]

    blocked.block_lane("w", [third], DatabaseFailure.FULL)

    (group,) = blocked.groups()
    assert group.writes == [third, first, second]  # what was tried comes before what was not
    assert group.failure is DatabaseFailure.FULL


def test_a_lane_waits_longer_each_time() -> None:
    blocked = BlockedWrites()
    began = time.monotonic()
    blocked.block_lane("w", [write()], DatabaseFailure.LOCKED)
    assert waits(blocked.groups()[0], 1, since=began)

    for times in (2, 3):
        make_due(blocked)
        for group in blocked.due():
            began = time.monotonic()
            blocked.block_lane("w", group.writes, DatabaseFailure.LOCKED)
        assert waits(blocked.groups()[0], times, since=began)


def test_only_lanes_that_are_due_are_tried_and_each_once() -> None:
    blocked = BlockedWrites()
    for lane in ("a", "b", "c"):
        blocked.block_lane(lane, [write(lane)], DatabaseFailure.LOCKED)
    a, b, c = blocked.groups()
    a.due_at = c.due_at = time.monotonic()
    b.due_at = time.monotonic() + 60

    assert list(blocked.due()) == [a, c]

    assert blocked.groups() == [b]
    assert not blocked.takes(write("a"))


def test_a_write_without_a_workspace_waits_for_no_other() -> None:
    blocked = BlockedWrites()
    first, second = write(""), write("")
    blocked.block_lane(first.lane, [first], DatabaseFailure.LOCKED)

    assert not blocked.takes(second)
    assert blocked.takes(first)


def test_the_next_try_is_that_of_the_lane_that_is_due_first() -> None:
    blocked = BlockedWrites()
    for lane in ("a", "b"):
        blocked.block_lane(lane, [write(lane)], DatabaseFailure.LOCKED)
    a, b = blocked.groups()
    a.due_at, b.due_at = time.monotonic() + 60, time.monotonic() + 30

    seconds = blocked.seconds_until_due()
    assert seconds is not None
    assert 20 < seconds <= 30
    b.due_at = time.monotonic() - 5
    assert blocked.seconds_until_due() == 0.0


def test_while_everything_is_blocked_no_lane_is_tried() -> None:
    blocked = BlockedWrites()
    lane, other = write("lane"), write("other")
    blocked.block_lane("lane", [lane], DatabaseFailure.LOCKED)
    blocked.block_all([other], DatabaseFailure.UNREACHABLE)
    everything, of_lane = blocked.groups()
    assert blocked.everything is everything
    of_lane.due_at = time.monotonic()
    everything.due_at = time.monotonic() + 60

    assert list(blocked.due()) == []
    seconds = blocked.seconds_until_due()
    assert seconds is not None
    assert seconds > 20
    assert blocked.takes(late := write("anything"))
    assert everything.writes == [other, late]

    everything.due_at = time.monotonic()
    assert list(blocked.due()) == [everything]
    assert blocked.everything is everything

    blocked.unblock_all()
    assert blocked.groups() == [of_lane]
    assert list(blocked.due()) == [of_lane]
    assert not blocked


def test_when_everything_gets_blocked_the_other_lanes_are_not_tried() -> None:
    blocked = BlockedWrites()
    for lane in ("a", "b"):
        blocked.block_lane(lane, [write(lane)], DatabaseFailure.LOCKED)
    make_due(blocked)
    tried = []

    for group in blocked.due():
        tried.append(group)
        blocked.block_all(group.writes, DatabaseFailure.UNREACHABLE)

    assert len(tried) == 1
    assert len(blocked.groups()) == 2


def test_what_was_not_tried_waits_behind_what_failed_and_longer_each_time() -> None:
    blocked = BlockedWrites()
    failed, untried, earlier = write(), write(), write()
    backoff = Backoff()
    for _ in range(3):
        backoff.next_seconds()
    blocked.keep_behind([untried], backoff)  # nothing is blocked: nothing is kept
    assert not blocked

    blocked.block_all([failed], DatabaseFailure.UNREACHABLE)
    assert blocked
    blocked.block_all([earlier], DatabaseFailure.LOCKED)
    began = time.monotonic()
    blocked.keep_behind([untried], backoff)

    assert blocked.everything is not None
    assert blocked.everything.failure is DatabaseFailure.LOCKED
    assert blocked.everything.writes == [earlier, failed, untried]
    assert blocked.everything.backoff is backoff
    assert waits(blocked.everything, 4, since=began)


def test_everything_waits_longer_each_time() -> None:
    blocked = BlockedWrites()
    for times in (1, 2, 3):
        began = time.monotonic()
        blocked.block_all([], DatabaseFailure.UNREACHABLE)
        assert waits(blocked.groups()[0], times, since=began)


def test_a_request_is_overdue_at_its_deadline_or_in_a_long_outage() -> None:
    later = time.monotonic() + 60
    assert write(until=time.monotonic()).is_overdue
    assert not write(until=later).is_overdue

    outage.report(ConnectionError("refused"))
    assert not write(until=later).is_overdue
    outage.since = time.monotonic() - 60
    assert write(until=later).is_overdue
    assert not write().is_overdue  # a run waits as long as it takes


def test_everything_is_overdue_when_the_process_ends() -> None:
    assert not write().is_overdue
    limit_for_process(-1)
    assert write().is_overdue
