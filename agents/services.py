"""What runs beside a workspace's runs in this process: MCP and language servers, jobs.

A service starts what it needs by itself when it is asked for it; this module
tells it when a workspace opens, and sees to it that nothing of a workspace
outlives it. Events may be lost between processes, so it also looks by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from workspaces.log.reader import read
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Kind
from workspaces.models import Workspace

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
STOP_SECONDS = 5.0


class WorkspaceService(Protocol):
    async def open(self, workspace_id: str) -> None:
        """The workspace was opened, or its configuration has changed. Callable often."""
        ...

    def hosted(self) -> frozenset[str]:
        """The workspaces for which something runs here."""
        ...

    async def close(self, workspace_id: str) -> None:
        """Ends everything of a workspace. Callable twice."""
        ...

    async def stop(self) -> None:
        """The process stops: ends everything."""
        ...


class Services:
    def __init__(self, services: Sequence[WorkspaceService]) -> None:
        self._services = services
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: dict[str, asyncio.Lock] = {}  # a workspace's openings and closings, in order

    def start(self) -> None:
        self._spawn(self._look_forever())

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        stopping = [asyncio.ensure_future(service.stop()) for service in self._services]
        if stopping:
            _, late = await asyncio.wait(stopping, timeout=STOP_SECONDS)
            for task in late:
                logger.warning("a service did not stop in time")
                task.cancel()
            await asyncio.gather(*stopping, return_exceptions=True)

    def hear(self, event: RecordedEvent) -> None:
        """An event of this process's log. In the loop, and quick."""
        if event.kind in {Kind.WORKSPACE_OPENED, Kind.CONFIG_CHANGED}:
            self._spawn(self._open(event.workspace_id))
        elif event.kind == Kind.WORKSPACE_CLOSED:
            self._spawn(self._close(event.workspace_id))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            hosted = frozenset[str]().union(*(service.hosted() for service in self._services))
            try:
                left = hosted - await read(_open_among, hosted) if hosted else hosted
            except Exception:
                logger.exception("looking for closed workspaces failed; the next round tries again")
                continue
            for workspace_id in left:
                await self._close(workspace_id)

    async def _open(self, workspace_id: str) -> None:
        async with self._lock(workspace_id):
            await self._each(workspace_id, [s.open(workspace_id) for s in self._services])

    async def _close(self, workspace_id: str) -> None:
        async with self._lock(workspace_id):
            if not await read(_open_among, frozenset({workspace_id})):  # not opened again
                await self._each(workspace_id, [s.close(workspace_id) for s in self._services])

    def _lock(self, workspace_id: str) -> asyncio.Lock:
        return self._locks.setdefault(workspace_id, asyncio.Lock())

    async def _each(self, workspace_id: str, works: Sequence[Coroutine[Any, Any, None]]) -> None:
        for outcome in await asyncio.gather(*works, return_exceptions=True):
            if isinstance(outcome, Exception):
                log = {"workspace": workspace_id}
                logger.error("a workspace's service failed", exc_info=outcome, extra=log)


def _open_among(workspace_ids: frozenset[str]) -> frozenset[str]:
    rows = Workspace.objects.filter(pk__in=workspace_ids, is_open=True)
    return frozenset(rows.values_list("pk", flat=True))
