"""Reads off the loop: kept connections, fresh answers, and a clean end."""

from __future__ import annotations

import asyncio
import threading
import time

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection

from tests.integration.log.writing import NewWriter
from workspaces.backoff import FIRST_SECONDS
from workspaces.log.deadlines import limit_for_process, wait_at_most
from workspaces.log.errors import DatabaseUnreachable
from workspaces.log.outage import outage
from workspaces.log.reader import THREADS, read, stop_reading
from workspaces.log.transaction import Transaction
from workspaces.models import Workspace


def paths(prefix: str, *, limit: int) -> list[str]:
    found = Workspace.objects.filter(path__startswith=prefix).order_by("pk")
    return list(found.values_list("path", flat=True)[:limit])


async def test_it_passes_arguments_and_returns_the_value(workspaces: list[str]) -> None:
    assert len(await read(paths, "/project/", limit=7)) == 7


async def test_it_runs_away_from_the_loop() -> None:
    assert await read(threading.get_ident) != threading.get_ident()


async def test_an_error_reaches_the_one_who_asked() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await read(fail)


async def test_it_sees_every_answered_commit(new_writer: NewWriter, workspaces: list[str]) -> None:
    writer = new_writer()
    writer.start(loop=asyncio.get_running_loop())

    def rename(tx: Transaction, path: str) -> None:
        tx.execute("UPDATE workspaces_workspace SET path = %s WHERE id = %s", [path, workspaces[0]])

    for number in range(50):
        await writer.write(workspaces[0], lambda tx, n=number: rename(tx, f"/renamed/{n}"))
        seen = await asyncio.gather(*(read(paths, "/renamed/", limit=9) for _ in range(THREADS)))
        assert seen == [[f"/renamed/{number}"]] * THREADS


async def test_a_read_goes_on_while_the_writer_writes(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = new_writer()
    writer.start(loop=asyncio.get_running_loop())
    entered, opened = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        tx.execute("UPDATE workspaces_workspace SET path = %s WHERE id = %s", ["/x", workspaces[0]])
        entered.set()
        assert opened.wait(20)

    task = asyncio.create_task(writer.write(workspaces[0], hold))
    try:
        await asyncio.to_thread(entered.wait, 20)
        async with asyncio.timeout(60):
            assert await read(paths, "/x", limit=1) == []
    finally:
        opened.set()
        await task

    assert await read(paths, "/x", limit=1) == ["/x"]


async def test_a_dropped_connection_is_replaced(workspaces: list[str]) -> None:
    seen: list[object] = []

    def dropped_at_first() -> int:
        connection.ensure_connection()
        seen.append(connection.connection)
        if len(seen) == 1:
            raise OperationalError("server closed the connection unexpectedly")
        return len(paths("/project/", limit=99))

    assert await read(dropped_at_first) == 20
    assert seen[0] is not seen[1]


async def test_a_database_that_is_away_for_long_is_told_at_once() -> None:
    def unreachable() -> None:
        raise OperationalError("gone") from psycopg.OperationalError("no connection")

    outage.report(OperationalError("gone"))
    outage.since = time.monotonic() - 60
    try:
        async with asyncio.timeout(60):
            with wait_at_most(60), pytest.raises(DatabaseUnreachable):
                await read(unreachable)
    finally:
        outage.report_end()


async def test_a_read_waits_for_the_database_and_reports_its_end() -> None:
    tries: list[float] = []

    def unreachable_at_first() -> int:
        tries.append(time.monotonic())
        if len(tries) < 6:
            raise OperationalError("gone") from psycopg.OperationalError("no connection")
        return 5

    assert await read(unreachable_at_first) == 5

    assert outage.since is None
    # Each connection gets a second try at once, and then there is a wait.
    assert tries[2] - tries[1] >= 0.75 * FIRST_SECONDS
    assert tries[4] - tries[3] >= 0.75 * 2 * FIRST_SECONDS


async def test_nobody_waits_for_the_database_when_the_process_ends() -> None:
    def unreachable() -> None:
        raise OperationalError("gone") from psycopg.OperationalError("no connection")

    limit_for_process(-1)
    try:
        async with asyncio.timeout(60):
            with pytest.raises(DatabaseUnreachable):
                await read(unreachable)
    finally:
        limit_for_process(None)
        outage.report_end()


async def test_a_query_that_stays_wrong_is_told() -> None:
    def wrong() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")

    with pytest.raises(DatabaseError):
        await read(wrong)


async def test_its_threads_keep_their_connections() -> None:
    def mine() -> int:
        connection.ensure_connection()
        return id(connection.connection)

    used = {await read(mine) for _ in range(20)}

    assert len(used) <= THREADS


async def test_stopping_closes_every_connection_and_reading_starts_anew(
    workspaces: list[str],
) -> None:
    together = threading.Barrier(THREADS)
    wrappers = []

    def open_one() -> None:
        together.wait(20)  # so that each thread has one
        connection.ensure_connection()
        wrappers.append(connection._connections[connection._alias])

    await asyncio.gather(*(read(open_one) for _ in range(THREADS)))
    assert len(set(map(id, wrappers))) == THREADS
    assert all(wrapper.connection is not None for wrapper in wrappers)

    await asyncio.to_thread(stop_reading)
    await asyncio.to_thread(stop_reading)

    assert all(wrapper.connection is None for wrapper in wrappers)
    assert len(await read(paths, "/project/", limit=99)) == 20
