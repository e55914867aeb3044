"""What an MCP host rests on, in memory: configuration, told states, logins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agents.config.settings import McpSettings
from agents.tools.mcp.contract import McpChange, McpServerView, McpStatus, McpWorkspace, Secret


@dataclass
class MemoryBacking:
    path: str
    env: Mapping[str, str]
    servers: dict[str, McpSettings] = field(default_factory=dict)
    disabled_tools: frozenset[str] = frozenset()
    told: list[tuple[McpChange, McpServerView]] = field(default_factory=list)
    dropped: list[frozenset[str] | None] = field(default_factory=list)
    secrets: dict[str, Secret] = field(default_factory=dict)
    moment: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def workspace(self, workspace_id: str) -> McpWorkspace:
        return McpWorkspace(self.path, self.env, dict(self.servers), self.disabled_tools)

    async def record(self, workspace_id: str, view: McpServerView, change: McpChange) -> None:
        self.told.append((change, view))
        self._news.set()
        self._news = asyncio.Event()

    async def drop(self, workspace_id: str, names: frozenset[str] | None) -> None:
        self.dropped.append(names)

    async def settle(self, workspace_id: str) -> None:
        pass

    async def load_secret(self, key: str) -> Secret | None:
        return self.secrets.get(key)

    async def save_secret(self, key: str, text: str) -> int:
        self.moment += 1
        self.secrets[key] = Secret(text, self.moment)
        return self.moment

    def add(self, settings: McpSettings) -> None:
        self.servers[settings.name] = settings

    async def until(
        self, holds: Callable[[McpServerView], bool], *, after: int = 0, timeout: float = 20
    ) -> McpServerView:
        """The first view, from the ``after``th that was told on, for which this holds."""
        async with asyncio.timeout(timeout):
            while True:
                for _, view in self.told[after:]:
                    if holds(view):
                        return view
                await self._news.wait()

    async def until_state(
        self, state: McpStatus, *, after: int = 0, timeout: float = 20
    ) -> McpServerView:
        return await self.until(lambda view: view.state is state, after=after, timeout=timeout)
