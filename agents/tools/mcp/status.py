"""Where a server stands: told to clients in order, and to whoever waits for a change."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agents.tools.mcp.contract import Backing, McpChange, McpServerView, McpStatus, Offer
from workspaces.log.errors import Refusal


class Standing:
    def __init__(self, workspace_id: str, name: str, backing: Backing) -> None:
        self.view = McpServerView(name, McpStatus.STARTING)
        self._workspace_id = workspace_id
        self._backing = backing
        self._order = asyncio.Lock()
        self._changed = asyncio.Event()
        self._is_told = False

    async def show(self, change: McpChange = McpChange.STATE, **what: Any) -> None:
        """Says what is now so. A store that is closing is no reason to fail."""
        async with self._order:
            before, self.view = self.view, replace(self.view, **what)
            self._changed.set()
            self._changed = asyncio.Event()
            if change is McpChange.STATE and before == self.view and self._is_told:
                return
            self._is_told = True
            with suppress(Refusal):
                await self._backing.record(self._workspace_id, self.view, change)

    async def show_offer(self, offer: Offer, change: McpChange, **what: Any) -> None:
        await self.show(
            change,
            tool_count=len(offer.tools),
            prompt_count=len(offer.prompts),
            resource_count=len(offer.resources),
            **what,
        )

    async def change(self) -> None:
        """Until the next change."""
        await self._changed.wait()
