"""All MCP servers of this process: those in the configuration of the open workspaces.

A ``WorkspaceService``: it is notified when a workspace opens, changes and closes, and
starts a workspace's servers on request. It restarts only servers that have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from agents.tools.mcp.contract import Backing, McpStatus, McpWorkspace
from agents.tools.mcp.limits import McpTimeouts
from agents.tools.mcp.server import McpServerClient
from agents.tools.mcp.supervisor import Site
from agents.tools.shell.identity import SERVER_MARK
from workspaces.log.errors import Refusal, WorkspaceUnknown

Servers = Mapping[str, McpServerClient]


@dataclass(frozen=True, slots=True)
class OfferingServers:
    """The servers of a workspace that offer tools, and the tools that it disables."""

    servers: tuple[McpServerClient, ...]
    disabled_tools: frozenset[str]


class McpHost:
    def __init__(self, backing: Backing, timeouts: McpTimeouts | None = None) -> None:
        self.server_mark = ""  # of the server process, with which all MCP servers end
        self._backing = backing
        self._timeouts = timeouts or McpTimeouts()
        self._servers: dict[str, dict[str, McpServerClient]] = {}  # by workspace and name
        self._locks: dict[str, asyncio.Lock] = {}
        self._is_stopping = False

    # -- the methods of ``WorkspaceService``

    async def open(self, workspace_id: str) -> None:
        try:
            await self.servers_of(workspace_id)
        except WorkspaceUnknown:
            return

    def hosted(self) -> frozenset[str]:
        return frozenset(self._servers)

    async def close(self, workspace_id: str) -> None:
        async with self._lock(workspace_id):
            servers = self._servers.pop(workspace_id, None)
            if servers is not None:
                await _stop(list(servers.values()))
                with suppress(Refusal):  # the workspace's row is gone, or the store is closing
                    await self._backing.drop(workspace_id, None)

    async def leave(self, workspace_id: str) -> None:
        """Stops the servers here. Their rows are those of the process that has them now."""
        async with self._lock(workspace_id):
            await _stop(list(self._servers.pop(workspace_id, {}).values()))

    async def stop(self) -> None:
        self._is_stopping = True
        everything = [server for servers in self._servers.values() for server in servers.values()]
        self._servers.clear()
        await _stop(everything)

    # -- for callers

    async def servers_of(self, workspace_id: str) -> Servers:
        """Returns the configured servers, started but perhaps not connected.

        Raises ``WorkspaceUnknown``.
        """
        return (await self._workspace_and_servers(workspace_id))[1]

    async def settled(self, workspace_id: str) -> Servers:
        """Returns the servers after a limited wait for those that start for the first time."""
        servers = await self.servers_of(workspace_id)
        await asyncio.gather(*(server.wait_first() for server in servers.values()))
        return servers

    def late_servers(self, workspace_id: str) -> tuple[str, ...]:
        """Returns the names of the servers whose first start is not yet complete."""
        servers = self._servers.get(workspace_id, {})
        return tuple(sorted(name for name, server in servers.items() if server.is_late))

    async def offering(self, workspace_id: str, *, seconds: float | None = None) -> OfferingServers:
        """Returns the servers whose tools a run may use; retries those that have stopped.

        ``seconds`` limits the wait for servers' first start.
        """
        workspace, servers = await self._workspace_and_servers(workspace_id)
        await asyncio.gather(*(server.wait_first(seconds) for server in servers.values()))
        await asyncio.gather(*(server.retry_if_stopped() for server in servers.values()))
        return OfferingServers(
            tuple(server for server in servers.values() if server.is_offering),
            workspace.disabled_tools,
        )

    async def _workspace_and_servers(self, workspace_id: str) -> tuple[McpWorkspace, Servers]:
        workspace = await self._backing.workspace(workspace_id)
        async with self._lock(workspace_id):
            if self._is_stopping:
                return workspace, {}
            known = self._servers.get(workspace_id, {})
            if not workspace.servers and not known:
                return workspace, {}
            if not known:
                await self._backing.settle(workspace_id)
            wanted = self._wanted(workspace_id, workspace, known)
            gone = [server for name, server in known.items() if wanted.get(name) is not server]
            self._servers[workspace_id] = wanted
            if not wanted:
                del self._servers[workspace_id]
            if gone:
                await _stop(gone)
                names = frozenset({server.name for server in gone} - set(wanted))
                if names:
                    await self._backing.drop(workspace_id, names)
            for server in wanted.values():
                server.start()
            return workspace, dict(wanted)

    def _wanted(
        self, workspace_id: str, workspace: McpWorkspace, known: Servers
    ) -> dict[str, McpServerClient]:
        env = (
            {**workspace.env, SERVER_MARK: self.server_mark} if self.server_mark else workspace.env
        )
        site = Site(workspace_id, workspace.path, env)
        wanted: dict[str, McpServerClient] = {}
        for name, settings in workspace.servers.items():
            server = known.get(name)
            if server is None or server.settings != settings or server.site != site:
                server = McpServerClient(
                    site,
                    settings,
                    backing=self._backing,
                    timeouts=self._timeouts,
                    on_login=self._wake_others,
                )
            wanted[name] = server
        return wanted

    def _wake_others(self, login_key: str) -> None:
        """After a login, reconnects the same server in other workspaces."""
        for servers in self._servers.values():
            for server in servers.values():
                if server.login_key == login_key and server.view.state is McpStatus.NEEDS_AUTH:
                    server.wake()

    def _lock(self, workspace_id: str) -> asyncio.Lock:
        return self._locks.setdefault(workspace_id, asyncio.Lock())


async def _stop(servers: Sequence[McpServerClient]) -> None:
    await asyncio.gather(*(server.stop() for server in servers))
