"""Opens and closes the services of workspaces in this process: tool servers, jobs, sub-agents.

A service starts what it needs on demand. This module notifies it when a workspace opens,
and closes it so that nothing outlives the workspace. Events may be lost between
processes, so it also polls the database.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
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
        """Handles an opened workspace or changed configuration. May be called repeatedly."""
        ...

    def hosted(self) -> frozenset[str]:
        """Returns the workspaces for which something runs in this process."""
        ...

    async def close(self, workspace_id: str) -> None:
        """Ends everything that runs for a workspace. May be called twice."""
        ...

    async def stop(self) -> None:
        """Ends everything, because the process stops."""
        ...


class Services:
    def __init__(
        self,
        services: Sequence[WorkspaceService],
        *,
        tool_servers: Sequence[WorkspaceService] = (),
        is_home: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        """``tool_servers``: those that open only where the workspace has its home, or can have it."""
        self._services = services
        self._tool_servers = tool_servers
        self._all = (*services, *tool_servers)
        self._is_home = is_home
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: dict[
            str, asyncio.Lock
        ] = {}  # they keep a workspace's opens and closes in order

    def start(self) -> None:
        self._spawn(self._look_forever())

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        stopping = [asyncio.ensure_future(service.stop()) for service in self._all]
        if stopping:
            _, late = await asyncio.wait(stopping, timeout=STOP_SECONDS)
            for task in late:
                logger.warning("a service did not stop in time")
                task.cancel()
            await asyncio.gather(*stopping, return_exceptions=True)

    def handle_event(self, event: RecordedEvent) -> None:
        """Handles an event of this process's log. Called in the event loop; does not block."""
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
            hosted = frozenset[str]().union(*(service.hosted() for service in self._all))
            try:
                left = hosted - await read(_open_among, hosted) if hosted else hosted
            except Exception:
                logger.exception("the check for closed workspaces failed; it is repeated")
                continue
            for workspace_id in left:
                await self._close(workspace_id)

    async def _open(self, workspace_id: str) -> None:
        async with self._lock(workspace_id):
            works = [service.open(workspace_id) for service in self._services]
            await self._each(workspace_id, [*works, self._open_tool_servers(workspace_id)])

    async def _open_tool_servers(self, workspace_id: str) -> None:
        if self._is_home is None or await self._is_home(workspace_id):
            await self._each(workspace_id, [each.open(workspace_id) for each in self._tool_servers])

    async def _close(self, workspace_id: str) -> None:
        async with self._lock(workspace_id):
            if not await read(_open_among, frozenset({workspace_id})):  # not reopened meanwhile
                await self._each(workspace_id, [s.close(workspace_id) for s in self._all])

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
