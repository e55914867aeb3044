"""A request whose write does not begin is answered after a while, any other is left alone."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from workspaces.log.blocked_writes import QueuedWrite
from workspaces.log.errors import DatabaseUnreachable
from workspaces.log.write_answers import WaitingRequests


def requests(*, hangs_seconds: float = 0.05) -> WaitingRequests:
    waiting = WaitingRequests(threading.Lock(), hangs_seconds=hangs_seconds)
    waiting.begin(asyncio.get_running_loop())
    return waiting


def write(until: float | None) -> QueuedWrite[Any]:
    loop = asyncio.get_running_loop()
    return QueuedWrite("w", lambda tx: None, loop, loop.create_future(), until)


async def answered(asked: QueuedWrite[Any]) -> None:
    async with asyncio.timeout(60):
        with pytest.raises(DatabaseUnreachable):
            await asked.answer


async def test_it_is_refused_so_long_after_its_deadline_and_withdrawn() -> None:
    waiting = requests(hangs_seconds=0.1)
    asked = write(until := time.monotonic() + 0.1)
    waiting.add(asked)

    await answered(asked)

    assert time.monotonic() >= until + 0.1
    assert asked.is_withdrawn


async def test_what_has_begun_goes_on_waiting() -> None:
    waiting = requests()
    begun, asked, patient = write(0.0), write(0.0), write(None)
    begun.is_begun = True
    for each in (begun, patient, asked):
        waiting.add(each)

    await answered(asked)

    for each in (begun, patient):
        assert not each.answer.done()
        assert not each.is_withdrawn


async def test_what_was_answered_meanwhile_keeps_its_answer() -> None:
    waiting = requests()
    done, asked = write(0.0), write(0.0)
    done.answer.set_result(5)
    for each in (done, asked):
        waiting.add(each)

    await answered(asked)

    assert done.answer.result() == 5
    assert not done.is_withdrawn


async def test_who_waits_no_longer_is_left_alone() -> None:
    waiting = requests()
    gone, asked = write(0.0), write(0.0)
    for each in (gone, asked):
        waiting.add(each)
    waiting.discard(gone)

    await answered(asked)

    assert not gone.answer.done()


async def test_each_new_request_is_looked_after() -> None:
    waiting = requests()
    for _ in range(3):
        asked = write(0.0)
        waiting.add(asked)
        await answered(asked)


async def test_a_writer_that_starts_again_forgets_the_requests_of_before() -> None:
    waiting = requests()
    before, after = write(0.0), write(0.0)
    waiting.add(before)

    waiting.begin(asyncio.get_running_loop())
    waiting.add(after)

    await answered(after)
    assert not before.answer.done()


async def test_without_a_loop_a_request_is_taken_and_nothing_is_planned() -> None:
    waiting = WaitingRequests(threading.Lock(), hangs_seconds=0.0)
    waiting.begin(None)
    asked = write(0.0)

    waiting.add(asked)

    assert not asked.answer.done()
