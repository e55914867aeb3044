"""What a server offers, kept as the server says that it is while its connection lasts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agents.config.settings import McpSettings
from agents.tools.mcp.contract import McpChange, McpConnectionLost, McpFailed, Offer, allowed
from agents.tools.mcp.limits import Patience
from agents.tools.mcp.redaction import Telling
from agents.tools.mcp.status import Standing
from workspaces.tasks import wait_until_set

if TYPE_CHECKING:
    from agents.tools.mcp.session import McpConnection

logger = logging.getLogger(__name__)


class Offering:
    def __init__(
        self, settings: McpSettings, standing: Standing, telling: Telling, patience: Patience
    ) -> None:
        self.offer = Offer()  # as last known, also while the server is started again
        self._settings = settings
        self._standing = standing
        self._telling = telling
        self._patience = patience

    def take(self, offer: Offer) -> None:
        self.offer = allowed(offer, self._settings)

    async def renew(self, connection: McpConnection, change: McpChange) -> bool:
        """Reads one list again; whether it has changed. Raises ``McpFailed``."""
        before, seconds = self.offer, self._settings.timeout_seconds
        self.take(await connection.renewed(before, change, seconds=seconds))
        return self.offer != before

    async def follow(self, connection: McpConnection) -> McpFailed:
        """Hears what the server says by itself, until it is over; why it is."""
        is_distant = self._settings.kind != "stdio"
        while True:
            limit = self._patience.ping_seconds if is_distant else None
            if not await wait_until_set(connection.wake, seconds=limit):
                await connection.ping(seconds=self._settings.timeout_seconds)
            connection.wake.clear()
            if connection.is_over:
                return await connection.why_over()
            stale = sorted(connection.stale)
            connection.stale.clear()
            for change in stale:
                await self._hear_change(connection, change)
            # A server that says so all the time costs one reading a moment.
            if stale:
                await connection.over(self._patience.listing_seconds)

    async def _hear_change(self, connection: McpConnection, change: McpChange) -> None:
        """Told only when it is one; a list that cannot be read stays as it was known."""
        try:
            has_changed = await self.renew(connection, change)
        except McpConnectionLost:
            raise
        except McpFailed as failure:
            told = self._telling.sentence(str(failure))
            logger.debug("mcp server %s: %s", self._settings.name, told)
            return
        if has_changed:
            await self._standing.show_offer(self.offer, change)
