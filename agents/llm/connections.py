"""The shared HTTP connections to providers: one pool for each event loop.

Opens them, keeps them alive and closes them. This module imports aiohttp, which
takes 0.4 s, so ``agents.llm.providers`` imports it on first use.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import aiohttp

CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 60.0
MOST_CONNECTIONS = 1_000
DRAIN_SECONDS = 2.0


@dataclass(slots=True)
class _Pool:
    session: aiohttp.ClientSession
    draining: set[asyncio.Task[None]] = field(default_factory=set)


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()


def session() -> aiohttp.ClientSession:
    """Returns this loop's session; creates it on first use, and again after a close."""
    return _pool().session


def _pool() -> _Pool:
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None or pool.session.closed:
        pool = _pools[loop] = _Pool(_new_session())
    return pool


def _new_session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=MOST_CONNECTIONS, ttl_dns_cache=60, keepalive_timeout=KEEP_ALIVE_SECONDS
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        auto_decompress=True,
        read_bufsize=256 * 1024,
        skip_auto_headers=("User-Agent",),
    )


def settle(response: aiohttp.ClientResponse) -> None:
    """Keeps the connection of a complete reply for the next request.

    The last bytes of the body may not have arrived yet. A separate task reads them,
    so that the caller does not wait for a reply that is already complete.
    """
    if response.closed or response.content.at_eof():
        response.release()
        return
    pool = _pool()
    task = asyncio.get_running_loop().create_task(_drain(response))
    pool.draining.add(task)
    task.add_done_callback(pool.draining.discard)


def draining() -> int:
    """Returns the number of connections whose reply is complete but whose body is not."""
    return len(_pool().draining)


async def _drain(response: aiohttp.ClientResponse) -> None:
    try:
        with suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await response.content.readany()
        if response.content.at_eof():
            response.release()
    finally:
        response.close()  # does nothing to a connection that was released


async def close_connections() -> None:
    """Closes every connection of the running loop; the next request opens new ones."""
    pool = _pools.pop(asyncio.get_running_loop(), None)
    if pool is None:
        return
    draining = list(pool.draining)
    for task in draining:
        task.cancel()
    await asyncio.gather(*draining, return_exceptions=True)
    await pool.session.close()
