"""Resources and pages by Django's handler: a few threads keep their connections to the database."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio
from django.db import connection

from crushsite.asgi.routing import LazyDjango
from tests.integration.api.client import Api
from tests.integration.databases import POSTGRESQL, Databases
from workspaces.log.reader import KEPT_THREADS

LIST = "/api/workspaces"


class Watch:
    """Sees which processes of PostgreSQL serve connections to the test's database."""

    def __init__(self) -> None:
        connection.ensure_connection()
        assert connection.connection is not None
        info = connection.connection.info
        self._own = psycopg.connect(connection.connection.info.dsn, autocommit=True)
        self._known = {info.backend_pid, self._own.info.backend_pid}

    def others(self) -> set[int]:
        rows = self._own.execute(
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        return {pid for (pid,) in rows} - self._known

    async def others_become(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.others()) != count:
                await asyncio.sleep(0.01)

    def end_others(self) -> None:
        for pid in self.others():
            self._own.execute("SELECT pg_terminate_backend(%s)", [pid])

    def close(self) -> None:
        self._own.close()


@pytest.fixture
def watch(databases: Databases) -> Iterator[Watch]:
    with databases.get(POSTGRESQL).use():
        made = Watch()
        yield made
        made.close()


@pytest_asyncio.fixture
async def django(watch: Watch) -> AsyncIterator[Api]:
    handler = LazyDjango()
    yield Api(handler)
    await handler.finish()


async def test_requests_share_a_connection(django: Api, watch: Watch) -> None:
    await django.get(LIST)
    first = watch.others()
    assert len(first) == 1
    for _ in range(5):
        await django.get(LIST)
    assert watch.others() == first


async def test_a_connection_that_the_database_ended_is_replaced(django: Api, watch: Watch) -> None:
    await django.get(LIST)
    watch.end_others()
    await watch.others_become(0)
    assert await django.get(LIST) == {"items": [], "next": None}


async def test_many_requests_at_once_leave_a_few_connections(django: Api, watch: Watch) -> None:
    await asyncio.gather(*(django.get(LIST) for _ in range(3 * KEPT_THREADS)))
    await watch.others_become(KEPT_THREADS)


async def test_nothing_is_open_after_the_end(django: Api, watch: Watch) -> None:
    await django.get(LIST)
    await django.handler.finish()
    await watch.others_become(0)
