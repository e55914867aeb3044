"""All the MCP servers of this process: those that the open workspaces' configuration names.

A ``WorkspaceService``: it is told when a workspace opens, changes and closes,
and starts by itself what it is asked for. It restarts only what has changed.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from agents.tools.contract import Tool
from agents.tools.mcp.contract import Backing, McpStatus, McpWorkspace
from agents.tools.mcp.limits import TOOL_NAME_CHARS, Patience
from agents.tools.mcp.server import McpServerClient
from agents.tools.mcp.supervisor import Site
from agents.tools.mcp.tools.list_mcp_resources import ListMcpResources
from agents.tools.mcp.tools.read_mcp_resource import ReadMcpResource
from agents.tools.mcp.tools.tool import McpTool
from agents.tools.shell.reaper import SERVER_MARK
from workspaces.log.errors import Refusal, WorkspaceUnknown

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS = 8


def tool_names(offered: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """A name for each (server, tool), the same for the same set in whatever order.

    Where two would share one, both get a mark of their own: no server can take
    the name under which another's tool was allowed.
    """
    pairs = sorted(set(offered))
    plain = {pair: _plain(*pair) for pair in pairs}
    counts = Counter(name.lower() for name in plain.values())
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for pair in pairs:
        name = plain[pair]
        if counts[name.lower()] > 1 or len(name) > TOOL_NAME_CHARS:
            name = _marked(name, pair)
        if name.lower() not in taken:  # made to look like another's mark: left out
            taken.add(name.lower())
            names[pair] = name
    return names


def _plain(server: str, tool: str) -> str:
    return f"mcp_{_FOREIGN.sub('_', server)}_{_FOREIGN.sub('_', tool)}"


def _marked(name: str, pair: tuple[str, str]) -> str:
    digest = sha256("\0".join(pair).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: TOOL_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


Servers = Mapping[str, McpServerClient]


class McpHost:
    def __init__(self, backing: Backing, patience: Patience | None = None) -> None:
        self.server_mark = ""  # of the process that everything ends with
        self._backing = backing
        self._patience = patience or Patience()
        self._servers: dict[str, dict[str, McpServerClient]] = {}  # by workspace and name
        self._locks: dict[str, asyncio.Lock] = {}
        self._is_stopping = False

    # -- as a service

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

    async def stop(self) -> None:
        self._is_stopping = True
        everything = [server for servers in self._servers.values() for server in servers.values()]
        self._servers.clear()
        await _stop(everything)

    # -- for whoever needs them

    async def servers_of(self, workspace_id: str) -> Servers:
        """As the configuration says now; started, but perhaps not up. Raises ``WorkspaceUnknown``."""
        return (await self._place_and_servers(workspace_id))[1]

    async def settled(self, workspace_id: str) -> Servers:
        """After a wait, within limits, for those that start for the first time."""
        servers = await self.servers_of(workspace_id)
        await asyncio.gather(*(server.wait_first() for server in servers.values()))
        return servers

    def late(self, workspace_id: str) -> tuple[str, ...]:
        """The servers that still start for the first time."""
        servers = self._servers.get(workspace_id, {})
        return tuple(sorted(name for name, server in servers.items() if server.is_late))

    async def tools(
        self, workspace_id: str, *, seconds: float | None = None
    ) -> Mapping[str, Tool[Any]]:
        """What a run may call. Waits so long for servers that start for the first time."""
        place, servers = await self._place_and_servers(workspace_id)
        await asyncio.gather(*(server.wait_first(seconds) for server in servers.values()))
        await asyncio.gather(*(server.nudge() for server in servers.values()))
        tools = _tools(servers)
        return {name: tool for name, tool in tools.items() if name not in place.disabled_tools}

    async def _place_and_servers(self, workspace_id: str) -> tuple[McpWorkspace, Servers]:
        place = await self._backing.place(workspace_id)
        async with self._lock(workspace_id):
            if self._is_stopping:
                return place, {}
            known = self._servers.get(workspace_id, {})
            if not place.servers and not known:
                return place, {}
            if not known:
                await self._backing.settle(workspace_id)
            wanted = self._wanted(workspace_id, place, known)
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
            return place, dict(wanted)

    def _wanted(
        self, workspace_id: str, place: McpWorkspace, known: Servers
    ) -> dict[str, McpServerClient]:
        env = {**place.env, SERVER_MARK: self.server_mark} if self.server_mark else place.env
        site = Site(workspace_id, place.path, env)
        wanted: dict[str, McpServerClient] = {}
        for name, settings in place.servers.items():
            server = known.get(name)
            if server is None or server.settings != settings or server.site != site:
                server = McpServerClient(
                    site,
                    settings,
                    backing=self._backing,
                    patience=self._patience,
                    on_login=self._wake_others,
                )
            wanted[name] = server
        return wanted

    def _wake_others(self, login_key: str) -> None:
        """Somebody logged in: the same server of other workspaces may go on."""
        for servers in self._servers.values():
            for server in servers.values():
                if server.login_key == login_key and server.view.state is McpStatus.NEEDS_AUTH:
                    server.wake()

    def _lock(self, workspace_id: str) -> asyncio.Lock:
        return self._locks.setdefault(workspace_id, asyncio.Lock())


def _tools(servers: Servers) -> dict[str, Tool[Any]]:
    offering = {name: server for name, server in servers.items() if server.is_offering}
    names = tool_names(
        (server.name, tool.name) for server in offering.values() for tool in server.offer.tools
    )
    tools: dict[str, Tool[Any]] = {}
    for server in offering.values():
        for offered in server.offer.tools:
            name = names.get((server.name, offered.name))
            if name is not None:
                tools[name] = McpTool(name, offered, server)
    if any(server.offer.resources for server in offering.values()):
        for tool in (ListMcpResources(offering.get), ReadMcpResource(offering.get)):
            tools[tool.spec.name] = tool
    return dict(sorted(tools.items()))


async def _stop(servers: Sequence[McpServerClient]) -> None:
    await asyncio.gather(*(server.stop() for server in servers))
