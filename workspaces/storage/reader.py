"""Reads off the event loop, in a few threads that keep their connections.

Django's own way would give each request a thread and, with it, a new
connection; here a read costs one hop. Reads see every commit that was answered
before they began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import DatabaseError, connection

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 4

_pool: ThreadPoolExecutor | None = None


async def read(query: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs the query function in a reading thread. It must not write."""
    return await asyncio.get_running_loop().run_in_executor(
        _threads(), _run, lambda: query(*args, **kwargs)
    )


def _run(query: Callable[[], T]) -> T:
    try:
        return query()
    except DatabaseError:
        # A connection that the database dropped: once more on a new one.
        connection.close()
        return query()


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="reader")
    return _pool


def stop_reading() -> None:
    """Ends the threads and their connections. Reading again starts new ones."""
    global _pool
    if _pool is not None:
        for _ in range(THREADS):
            _pool.submit(connection.close)
        _pool.shutdown(wait=True)
        _pool = None
