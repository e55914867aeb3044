"""All language servers of this process, by workspace.

The host is notified when workspaces open and close. It reads configuration and stores
statuses through its ports, without a database or a configuration file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from agents.tools.contract import LanguageService
from agents.tools.lsp.server import FIRST_PAUSE_SECONDS
from agents.tools.lsp.service import WorkspaceLanguages
from agents.tools.lsp.states import ServerStatus
from agents.tools.lsp.workspace import Planned, WorkspaceServers

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Ports:
    plan: Callable[[str], Awaitable[Planned]]
    record: Callable[[str, ServerStatus], Awaitable[None]]  # called in order
    forget: Callable[[str, str], Awaitable[None]]  # a server that was removed
    settle: Callable[[str], Awaitable[None]]  # ends and records lost servers


class LanguageHost:
    def __init__(self, ports: Ports, *, first_pause_seconds: float = FIRST_PAUSE_SECONDS) -> None:
        self._ports = ports
        self._first_pause = first_pause_seconds
        self._workspaces: dict[str, WorkspaceServers] = {}
        self._news: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._writing: asyncio.Task[None] | None = None

    # -- the methods of ``WorkspaceService``

    async def open(self, workspace_id: str) -> None:
        is_new = workspace_id not in self._workspaces
        servers = self.servers_of(workspace_id)
        if is_new:
            await self._ports.settle(workspace_id)
        await servers.refresh(at_once=True)

    def hosted(self) -> frozenset[str]:
        return frozenset(self._workspaces)

    def running(self) -> frozenset[str]:
        """Returns the workspaces of which a server runs."""
        return frozenset(key for key, servers in self._workspaces.items() if servers.is_hosting)

    async def leave(self, workspace_id: str) -> None:
        """Stops the servers here. Their rows are those of the process that has them now."""
        servers = self._workspaces.pop(workspace_id, None)
        if servers is not None:
            await servers.leave()

    async def close(self, workspace_id: str) -> None:
        servers = self._workspaces.pop(workspace_id, None)
        if servers is not None:
            await servers.close()
            await self._drain()

    async def stop(self) -> None:
        await asyncio.gather(*(self.close(workspace_id) for workspace_id in self.hosted()))
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
            self._writing = None

    # -- for runs and endpoints

    def servers_of(self, workspace_id: str) -> WorkspaceServers:
        servers = self._workspaces.get(workspace_id)
        if servers is None:
            servers = self._workspaces[workspace_id] = WorkspaceServers(
                lambda: self._ports.plan(workspace_id),
                notify=lambda status: self._write(
                    partial(self._ports.record, workspace_id, status)
                ),
                forget=lambda name: self._write(partial(self._ports.forget, workspace_id, name)),
                first_pause_seconds=self._first_pause,
            )
        return servers

    def known(self, workspace_id: str) -> WorkspaceServers | None:
        return self._workspaces.get(workspace_id)

    def languages_of(self, workspace_id: str) -> LanguageService:
        return WorkspaceLanguages(self.servers_of(workspace_id))

    # -- storing statuses, in order

    def _write(self, news: Callable[[], Awaitable[None]]) -> None:
        self._news.put_nowait(news)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all(), name="language-server-news")

    async def _write_all(self) -> None:
        while True:
            news = await self._news.get()
            try:
                await news()
            except Exception:
                logger.exception("a language server's state could not be written")
            finally:
                self._news.task_done()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._news.join()
        except TimeoutError:
            logger.warning("states of language servers were not written in time")
