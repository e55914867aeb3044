"""A cancel while no space is left: what runs stops at once, and the cancel is stored later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from django.db import connection

from agents.runs import nudges
from agents.runs.cancel import cancel, mark_deleted
from agents.runs.lease import Lease
from tests.integration.databases import SQLITE, Databases
from tests.integration.log.writing import appending, in_thread
from tests.integration.runs.ground import Ground, cancelled_of, open_ground
from workspaces.log.deadlines import wait_at_most
from workspaces.log.errors import SessionUnknown
from workspaces.log.outage import outage
from workspaces.log.reader import stop_reading
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Session

MANY_PAGES = 1_000_000
LARGE = "x" * 200_000


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """Only SQLite: its file can be limited for a test."""
    with databases.get(SQLITE).use():
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")  # pages that earlier tests have left free are room, too
        yield SQLITE
    outage.report_end()


@pytest.fixture
def held(ground: Ground) -> Lease:
    return ground.start()


@pytest_asyncio.fixture
async def heard(held: Lease) -> AsyncIterator[list[dict[str, Any]]]:
    """What this process's worker hears."""
    messages: list[dict[str, Any]] = []
    nudges.listen_here(messages.append)
    writer.start(loop=asyncio.get_running_loop())
    yield messages
    nudges.stop_listening_here(messages.append)
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)


async def limit(*, free_pages: int | None) -> None:
    def job(tx: Transaction) -> None:
        ((used,),) = tx.fetch("PRAGMA page_count", [])
        pages = MANY_PAGES if free_pages is None else used + free_pages
        connection.connection.execute(f"PRAGMA max_page_count = {pages}")

    await writer.write("", job)


async def fill(ground: Ground) -> asyncio.Task[int]:
    """A worker's write that waits for room: what comes behind it waits as well."""
    await limit(free_pages=20)
    with wait_at_most(None):
        write = writer.write(ground.workspace_id, appending(ground.workspace_id, LARGE))
        waiting = asyncio.create_task(write)
    await asyncio.sleep(0)  # it is in the writer's queue now
    return waiting


async def make_room(*waiting: asyncio.Task[Any]) -> None:
    await limit(free_pages=None)
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting, *cancels())


def cancels() -> list[asyncio.Task[Any]]:
    """The cancels that wait to be stored."""
    return [task for task in asyncio.all_tasks() if task.get_name() == "cancel"]


async def cancel_impatiently(ground: Ground, session_id: str = "") -> None:
    with wait_at_most(0.01):
        await cancel(ground.workspace_id, session_id or ground.session_id)


async def stored_cancels() -> list[tuple[int, int]]:
    return list(await in_thread(cancelled_of, "worker"))


async def test_a_cancel_reaches_the_worker_at_once_and_is_stored_when_there_is_room(
    ground: Ground, held: Lease, heard: list[Any]
) -> None:
    waiting = await fill(ground)
    await cancel_impatiently(ground)
    assert heard == [{"type": "run.cancelled", "session_id": ground.session_id, "up_to": 1}]
    assert await stored_cancels() == []

    await make_room(waiting)

    assert await stored_cancels() == [(held.key, held.fence)]


async def test_many_cancels_of_a_session_wait_as_one(
    ground: Ground, held: Lease, heard: list[Any]
) -> None:
    waiting = await fill(ground)
    for _ in range(3):
        await cancel_impatiently(ground)
    assert len(heard) == 3  # each reaches the worker: a nudge may be lost
    assert len(cancels()) == 1
    await make_room(waiting)
    assert await stored_cancels() == [(held.key, held.fence)]


async def test_a_cancel_in_a_later_shortage_is_stored_as_well(
    ground: Ground, held: Lease, heard: list[Any]
) -> None:
    for _ in range(2):
        await in_thread(partial(Session.objects.all().update, cancel_mark=0))
        waiting = await fill(ground)
        await cancel_impatiently(ground)
        await make_room(waiting)
        assert await stored_cancels() == [(held.key, held.fence)]


async def test_a_cancel_of_an_unknown_session_is_refused_all_the_same(
    ground: Ground, held: Lease, heard: list[Any]
) -> None:
    other = await in_thread(open_ground, "/other")
    waiting = await fill(ground)
    for session_id in ("unknown", other.session_id):
        with pytest.raises(SessionUnknown):
            await cancel_impatiently(ground, session_id)
    assert heard == cancels() == []
    await make_room(waiting)


async def test_a_cancel_whose_session_goes_meanwhile_is_forgotten(
    ground: Ground, held: Lease, heard: list[Any]
) -> None:
    waiting = await fill(ground)
    with wait_at_most(None):
        deletion = asyncio.create_task(
            writer.write(
                ground.workspace_id,
                lambda tx: mark_deleted(tx, ground.workspace_id, ground.session_id),
            )
        )
        await asyncio.sleep(0)
    await cancel_impatiently(ground)
    await make_room(waiting, deletion)
    assert len(heard) == 1
