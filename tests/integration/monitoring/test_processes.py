"""Which workers have left the database, and the clock that they share."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest
from django.db import DEFAULT_DB_ALIAS, connection, connections

from crushsite.monitoring.processes import disconnected
from crushsite.storage import name_connections
from tests.integration.databases import POSTGRESQL, SQLITE, Databases
from workspaces.log.database_clock import compare_clocks
from workspaces.log.ids import new_id
from workspaces.log.timestamps import CLOCK, now_ms

HERE, THERE, GONE = new_id(), new_id(), new_id()


@pytest.fixture
def postgresql(databases: Databases) -> Iterator[dict[str, str]]:
    """The options of this process's connections, which the test may change."""
    with databases.get(POSTGRESQL).use():
        options = connections.settings[DEFAULT_DB_ALIAS]["OPTIONS"]
        before = dict(options)
        connection.close()  # the next one has the options as they are then
        try:
            yield options
        finally:
            connection.close()
            options.clear()
            options.update(before)
            CLOCK.use_host()


@pytest.fixture
def others() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(others: ExitStack, name: str) -> None:
    parameters = {**connection.get_connection_params(), "application_name": name}
    for own in ("cursor_factory", "context"):
        parameters.pop(own, None)
    others.enter_context(psycopg.connect(**parameters))


def test_a_worker_without_a_connection_has_left(
    postgresql: dict[str, str], others: ExitStack
) -> None:
    name_connections("worker", HERE)
    connect(others, f"crush-server serve 7 {THERE[:8]}")
    assert disconnected([HERE, THERE, GONE]) == [GONE]


def test_nothing_is_known_of_connections_that_the_url_names(
    postgresql: dict[str, str], others: ExitStack
) -> None:
    postgresql["application_name"] = "ours"
    connect(others, f"crush-server worker 7 {THERE[:8]}")
    assert list(disconnected([THERE, GONE])) == []


def test_on_sqlite_nobody_else_is_there(databases: Databases) -> None:
    with databases.get(SQLITE).use():
        assert list(disconnected([GONE])) == []


async def test_the_clock_is_that_of_the_database(postgresql: dict[str, str]) -> None:
    CLOCK.adjust(0, before_ns=0, after_ns=0)  # a host whose clock is wrong by decades
    assert abs(now_ms() - time.time() * 1000) > 10**9
    await compare_clocks()
    assert abs(now_ms() - time.time() * 1000) < 1000


def test_on_sqlite_the_clock_is_that_of_the_host(databases: Databases) -> None:
    with databases.get(SQLITE).use():
        asyncio.run(compare_clocks())
    assert abs(now_ms() - time.time() * 1000) < 100
