"""The person who lets an MCP server in: asks for the login and opens every page that it leads to."""

import asyncio

import aiohttp

from agents.tools.mcp.server import McpServerClient
from tests.doubles.mcp_backing import MemoryBacking


class Person:
    def __init__(self, server: McpServerClient, backing: MemoryBacking) -> None:
        self._server = server
        self._backing = backing
        self.visited: list[str] = []

    async def log_in(self) -> None:
        """Raises ``McpFailed`` when the login fails."""
        browsing = asyncio.create_task(self._browse(len(self._backing.told)))
        try:
            await self._server.log_in()
        finally:
            browsing.cancel()
            await asyncio.wait({browsing})

    async def _browse(self, seen: int) -> None:
        last = ""
        while True:
            view = await self._backing.until(
                lambda view, last=last: view.auth_url not in ("", last), after=seen, timeout=60
            )
            last = view.auth_url
            self.visited.append(last)
            async with aiohttp.ClientSession() as browser, browser.get(last) as page:
                await page.read()
