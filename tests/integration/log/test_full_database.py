"""No room is left for SQLite's file: what waits keeps its order, and requests are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from django.db import connection

from tests.integration.databases import SQLITE, Databases
from tests.integration.log.writing import NewWriter, appending, in_thread, logged, start
from workspaces.log.deadlines import wait_at_most
from workspaces.log.errors import StorageFull
from workspaces.log.outage import outage
from workspaces.log.transaction import Transaction
from workspaces.log.writer import Writer

MANY_PAGES = 1_000_000
LARGE = "x" * 200_000


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    with databases.get(SQLITE).use():
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")  # pages that earlier tests have left free are room, too
        yield SQLITE
    outage.report_end()


async def limit(writer: Writer, *, free_pages: int | None) -> None:
    """Of the writer's connection: another one could not limit it."""

    def job(tx: Transaction) -> None:
        ((used,),) = tx.fetch("PRAGMA page_count", [])
        pages = MANY_PAGES if free_pages is None else used + free_pages
        connection.connection.execute(f"PRAGMA max_page_count = {pages}")

    await writer.write("", job)


async def test_patient_writes_wait_for_room_in_their_order(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    await limit(writer, free_pages=20)
    names = [LARGE, "small", "smaller"]
    waiting = [
        asyncio.create_task(writer.write(workspaces[0], appending(workspaces[0], name)))
        for name in names
    ]
    await asyncio.sleep(0)
    # Another workspace's small write fits.
    assert await writer.write(workspaces[1], appending(workspaces[1], "fits")) == 1
    assert not any(task.done() for task in waiting)
    await limit(writer, free_pages=None)
    async with asyncio.timeout(60):
        assert await asyncio.gather(*waiting) == [1, 2, 3]
    assert [name for _, name in await in_thread(logged, workspaces[0])] == names


async def test_a_request_is_refused_at_once_and_stores_nothing(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    await limit(writer, free_pages=20)
    async with asyncio.timeout(60):
        with wait_at_most(60), pytest.raises(StorageFull, match="No space is left"):
            await writer.write(workspaces[0], appending(workspaces[0], LARGE))
    await limit(writer, free_pages=None)
    assert await in_thread(logged, workspaces[0]) == []
