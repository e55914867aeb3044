"""A room: whatever order events arrive in, its readers get the log in order."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.delivery.played import Played, event, numbers


async def test_events_are_passed_on_in_order() -> None:
    played = Played()
    reader = played.native()

    for number in (1, 2, 3):
        played.room.publish(event(number))

    assert numbers(await played.told(reader)) == [1, 2, 3]
    assert played.asked_events == 0


async def test_an_early_event_waits_and_its_predecessor_is_asked_for() -> None:
    played = Played(last_number=4)
    reader = played.native()

    played.room.publish(event(6))
    assert numbers(await played.told(reader)) == []
    assert played.asked_events == 1
    played.room.publish(event(5))

    assert numbers(await played.told(reader)) == [5, 6]
    assert played.room.last_number == 6


async def test_what_is_known_is_not_passed_on_again() -> None:
    played = Played(last_number=4)
    reader = played.native()

    for number in (3, 4, 5, 5, 4):
        played.room.publish(event(number))

    assert numbers(await played.told(reader)) == [5]


async def test_what_comes_before_the_log_is_read_is_judged_against_it() -> None:
    played = Played(last_number=None)
    reader = played.native()
    for number in (3, 4, 5):
        played.room.publish(event(number))
    assert numbers(await played.told(reader)) == []

    played.room.prime(3, {})

    assert numbers(await played.told(reader)) == [4, 5]


@given(st.permutations(range(1, 13)), st.lists(st.integers(1, 12)), st.integers(0, 11))
def test_any_order_of_arrival_comes_out_as_the_log(
    order: list[int], again: list[int], primed_after: int
) -> None:
    async def play() -> None:
        played = Played(last_number=None)
        reader = played.native()
        for index, number in enumerate([*order, *again, *again]):
            if index == primed_after:
                played.room.prime(0, {})
            played.room.publish(event(number))
        assert numbers(await played.told(reader)) == list(range(1, 13))

    asyncio.run(play())


async def test_whoever_waits_for_the_next_event_is_woken() -> None:
    played = Played()
    waiting = asyncio.create_task(played.room.wait_for_next())
    await asyncio.sleep(0)

    played.room.publish(event(1))

    await asyncio.wait_for(waiting, 60)


async def test_waiting_for_the_next_event_has_an_end() -> None:
    played = Played()
    await asyncio.wait_for(played.room.wait_for_next(), 60)

    played.room.publish(event(1))  # the one who waited is gone: no harm

    assert played.room.last_number == 1
