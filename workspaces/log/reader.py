"""Runs reads off the event loop, in a few threads that keep their connections.

Django would use a thread, and with it a new connection, for each request; here a read costs one
thread switch. A read sees every commit that was acknowledged before it began.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import ParamSpec, TypeVar

from asgiref.sync import ThreadSensitiveContext
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from workspaces.backoff import Backoff
from workspaces.log.deadlines import deadline, is_over_for_process
from workspaces.log.errors import DatabaseUnreachable
from workspaces.log.failures import DatabaseFailure, failure_of
from workspaces.log.outage import outage

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 4
KEPT_THREADS = 4

_pool: ThreadPoolExecutor | None = None
_connections: list[BaseDatabaseWrapper] = []  # one for each thread of the pool


async def read(query: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs the query function in a reading thread. It must not write.

    Waits for a database that cannot be reached, and raises ``DatabaseUnreachable`` at the
    caller's deadline (``wait_at_most``).
    """
    loop = asyncio.get_running_loop()
    until: float | None = None
    backoff: Backoff | None = None
    while True:
        try:
            found = await loop.run_in_executor(_threads(), _run, lambda: query(*args, **kwargs))
        except Error as error:
            if failure_of(error) is not DatabaseFailure.UNREACHABLE:
                raise
            outage.report(error)
            if backoff is None:
                until, backoff = deadline(), Backoff()
            is_overdue = until is not None and (outage.is_long or time.monotonic() >= until)
            if is_overdue or is_over_for_process():
                raise DatabaseUnreachable from error
            await asyncio.sleep(backoff.next_seconds())
        else:
            if outage.since is not None:
                outage.report_end()
            return found


def _run(query: Callable[[], T]) -> T:
    try:
        return query()
    except Error:
        # The database dropped the connection: retry once on a new one.
        connection.close()
        return query()


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(
            THREADS, thread_name_prefix="reader", initializer=_remember_connection
        )
    return _pool


def _remember_connection() -> None:
    own = connections[DEFAULT_DB_ALIAS]
    own.inc_thread_sharing()  # closed by the thread that stops the pool
    _connections.append(own)


def stop_reading() -> None:
    """Stops the threads and closes their connections. The next read starts new ones."""
    global _pool
    if _pool is not None:
        _pool.shutdown(wait=True)
        _pool = None
    while _connections:
        _connections.pop().close()


class KeptThreads:
    """A thread for each request of Django's handler; some stay, and keep their connections.

    The sessions of a workspace take 1.6 in place of 2.9 ms on SQLite, and 2.0 in place of 7.1 ms on
    PostgreSQL (`python -m tests.bench.history`).
    """

    def __init__(self) -> None:
        self._idle: list[ThreadPoolExecutor] = []

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Sends what Django calls in a thread to a thread that no other request uses."""
        own = self._idle.pop() if self._idle else ThreadPoolExecutor(1, "django")
        is_idle = False
        try:
            async with ThreadSensitiveContext(executor=own):
                yield
            is_idle = True  # a request that was cancelled may still be in the thread
        finally:
            if is_idle and len(self._idle) < KEPT_THREADS:
                self._idle.append(own)
            else:
                own.submit(connections.close_all)
                own.shutdown(wait=False)

    async def close(self) -> None:
        while self._idle:
            own = self._idle.pop()
            own.submit(connections.close_all)
            await asyncio.to_thread(own.shutdown)
