"""Connections that break again and again, or whose COMMIT stays without an answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from django.db import Error, OperationalError, connection

from tests.doubles.tcp_proxy import Cut, Mode, TcpProxy
from tests.integration.databases import POSTGRESQL, Databases
from tests.integration.log.writing import (
    Gate,
    NewWriter,
    appending,
    in_thread,
    logged,
    other_session,
    start,
)
from workspaces.log.commits import run_alone
from workspaces.log.errors import DatabaseUnreachable, OutcomeUnknown
from workspaces.log.outage import outage
from workspaces.log.transaction import Transaction
from workspaces.log.writer import LOSSES_LIMIT


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """PostgreSQL alone: SQLite has no connection that could break."""
    with databases.get(POSTGRESQL).use():
        yield POSTGRESQL
    outage.report_end()


async def test_a_write_that_always_breaks_its_connection_is_refused_and_holds_up_no_other(
    new_writer: NewWriter, gate: Gate, workspaces: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    writer = start(new_writer)
    tries: list[int] = []

    def break_connection(tx: Transaction) -> None:
        tries.append(1)
        raise OperationalError("lost") from psycopg.OperationalError("the connection is lost")

    held = await gate.hold(writer)
    broken = asyncio.create_task(writer.write(workspaces[0], break_connection))
    others = [asyncio.create_task(writer.write(w, appending(w, "kept"))) for w in workspaces]
    await asyncio.sleep(0)
    gate.opened.set()
    async with asyncio.timeout(60):
        await held
        refused, *answers = await asyncio.gather(broken, *others, return_exceptions=True)
    assert isinstance(refused, DatabaseUnreachable)
    assert answers == [1] * len(workspaces)
    assert len(tries) == LOSSES_LIMIT
    assert "broke its connection every time" in caplog.text
    assert await writer.write(workspaces[0], appending(workspaces[0], "after")) == 2


async def test_a_stop_says_of_a_lost_commit_that_its_outcome_is_unknown(
    proxy: TcpProxy, new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    await writer.write("", lambda tx: None)
    proxy.cut_next_commits(1, Cut.ANSWER, then_refuse=True)
    lost = asyncio.create_task(writer.write(workspaces[0], appending(workspaces[0], "a")))
    while not proxy.cut_commits:
        await asyncio.sleep(0.001)
    await asyncio.to_thread(writer.stop)
    with pytest.raises(OutcomeUnknown):
        await lost


async def test_the_fate_of_a_lost_commit_is_looked_up_until_the_database_is_back(
    proxy: TcpProxy, workspaces: list[str]
) -> None:
    def run() -> int:
        run_alone("", lambda tx: None)
        proxy.cut_next_commits(1, Cut.ANSWER, then_refuse=True)
        timer = threading.Timer(0.5, proxy.set_mode, [Mode.PASS])
        timer.start()
        try:
            return run_alone(workspaces[0], appending(workspaces[0], "a"))[0]
        finally:
            timer.join()

    assert await in_thread(run) == 1
    assert await in_thread(logged, workspaces[0]) == [(1, "a")]
    assert 1 <= proxy.refused_connections <= 12  # less often each time


async def test_a_fate_that_cannot_be_looked_up_in_time_is_unknown(
    proxy: TcpProxy, workspaces: list[str]
) -> None:
    def run() -> None:
        run_alone("", lambda tx: None)
        proxy.cut_next_commits(1, Cut.ANSWER, then_refuse=True)
        run_alone(workspaces[0], appending(workspaces[0], "a"), seconds=0.3)

    began = time.monotonic()
    with pytest.raises(OutcomeUnknown):
        await in_thread(run)
    assert 0.3 <= time.monotonic() - began < 30


async def test_a_job_alone_replaces_a_connection_that_broke_before_it(
    workspaces: list[str],
) -> None:
    def run() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
        with other_session() as session:
            session.execute("SELECT pg_terminate_backend(%s)", [pid])
        with pytest.raises(Error), connection.cursor() as cursor:
            cursor.execute("SELECT 1")  # outside of any transaction
        return run_alone(workspaces[0], appending(workspaces[0], "a"))[0]

    assert await in_thread(run) == 1


async def test_a_write_whose_commit_always_breaks_its_connection_is_refused(
    proxy: TcpProxy, new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    await writer.write("", lambda tx: None)
    proxy.cut_next_commits(LOSSES_LIMIT, Cut.REQUEST)
    async with asyncio.timeout(60):
        with pytest.raises(DatabaseUnreachable):
            await writer.write(workspaces[0], appending(workspaces[0], "broken"))
    assert await writer.write(workspaces[0], appending(workspaces[0], "after")) == 1
    assert await in_thread(logged, workspaces[0]) == [(1, "after")]
