"""Once a day one process deletes old rows, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from crushsite.retention.kinds import DAY_MS
from crushsite.retention.nightly import NAME, Nightly, next_due
from people.models import AuditEntry
from workspaces.actions.daily_jobs import (
    LEASE_MS,
    claim_daily_job,
    end_daily_job,
    renew_daily_job,
)
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import DailyJob

DAYS = {"audit": 30, "events": 7, "steps": 0}


@pytest_asyncio.fixture(autouse=True)
async def _writing(database: str) -> AsyncIterator[None]:
    writer.start(loop=asyncio.get_running_loop())
    yield
    await asyncio.to_thread(writer.stop)


def nightly(holder: str = "one") -> Nightly:
    return Nightly(holder, days=DAYS, hour=3)


async def store_job(**values: Any) -> None:
    def job(_: object) -> None:
        DailyJob.objects.update_or_create(name=NAME, defaults={"due_at": 0, **values})

    await writer.write("", job)


async def add_entries() -> None:
    def job(_: object) -> None:
        for age in (29, 31, 32):
            at = now_ms() - age * DAY_MS
            AuditEntry.objects.create(at=at, kind="owner", actor="ada", act="open")

    await writer.write("", job)


async def entries() -> int:
    return await read(AuditEntry.objects.count)


async def stored() -> DailyJob:
    return await read(DailyJob.objects.get)


async def test_the_first_look_only_sets_the_time() -> None:
    await add_entries()
    before = now_ms()

    assert await nightly().look() is None

    assert await entries() == 3
    job = await stored()
    assert before < job.due_at <= before + DAY_MS
    assert job.held_until == 0


async def test_what_is_old_is_deleted_when_it_is_due_and_only_then() -> None:
    await add_entries()
    await store_job()

    assert await nightly().look() == {"audit": 2, "events": 0}
    assert await nightly().look() is None

    assert await entries() == 1
    job = await stored()
    assert job.due_at > now_ms()
    assert (job.holder, job.held_until, job.result) == ("", 0, {"audit": 2, "events": 0})
    assert job.finished_at is not None


async def test_of_two_processes_one_does_it() -> None:
    await add_entries()
    await store_job()

    results = await asyncio.gather(*(nightly(holder).look() for holder in ("one", "two")))

    assert [result for result in results if result is not None] == [{"audit": 2, "events": 0}]


async def test_it_waits_for_the_process_that_does_it_until_its_lease_expires() -> None:
    await add_entries()
    await store_job(holder="other", held_until=now_ms() + LEASE_MS)
    assert await nightly().look() is None
    assert await entries() == 3

    await store_job(holder="other", held_until=now_ms() - 1)
    assert await nightly().look() == {"audit": 2, "events": 0}


async def test_a_process_that_was_too_slow_no_longer_holds_the_job() -> None:
    await store_job()

    def take_over(tx: Transaction) -> list[bool]:
        def claim(holder: str) -> bool:
            return claim_daily_job(tx, NAME, holder=holder, first_due_at=0)

        claims = [claim("one"), claim("two")]
        tx.now += LEASE_MS
        claims.append(claim("two"))
        renewals = [renew_daily_job(tx, NAME, holder=holder) for holder in ("one", "two")]
        end_daily_job(tx, NAME, holder="one", due_at=tx.now, result={})
        return [*claims, *renewals]

    assert await writer.write("", take_over) == [True, False, True, False, True]
    job = await stored()
    assert (job.holder, job.finished_at) == ("two", None)


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ((2026, 3, 1, 2, 59), (2026, 3, 1, 3, 0)),
        ((2026, 3, 1, 3, 0), (2026, 3, 2, 3, 0)),
        ((2026, 12, 31, 12, 0), (2027, 1, 1, 3, 0)),
    ],
)
def test_it_is_due_at_the_next_hour_of_that_name(
    now: tuple[int, int, int, int, int], due: tuple[int, int, int, int, int]
) -> None:
    def ms(moment: tuple[int, int, int, int, int]) -> int:
        return int(datetime(*moment, tzinfo=UTC).timestamp() * 1000)

    assert next_due(ms(now), hour=3) == ms(due)
