"""What clients see of a server: its status, its offer, and its failures without secrets."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agents.config.mask import (
    Scrubber,
    is_secret_name,
    masked_within,
    secrets_in_arguments,
)
from agents.config.settings import McpSettings
from agents.tools.mcp.contract import (
    Backing,
    McpChange,
    McpConnectionLost,
    McpFailed,
    McpServerView,
    McpStatus,
    Offer,
    allowed,
)
from agents.tools.mcp.limits import MAX_ERROR_CHARS, McpTimeouts
from workspaces.log.errors import Refusal
from workspaces.tasks import wait_until_set

if TYPE_CHECKING:
    from agents.tools.mcp.protocol.connection import McpConnection

logger = logging.getLogger(__name__)

_OPAQUE_CHARS = 16
_SPACE = re.compile(r"\s")


class PublishedStatus:
    """The status: sends changes to clients in order, and wakes tasks that wait for one."""

    def __init__(self, workspace_id: str, name: str, backing: Backing) -> None:
        self.view = McpServerView(name, McpStatus.STARTING)
        self._workspace_id = workspace_id
        self._backing = backing
        self._order = asyncio.Lock()
        self._changed = asyncio.Event()
        self._is_published = False

    async def publish(self, change: McpChange = McpChange.STATE, **fields: Any) -> None:
        """Records and publishes a change. Does not fail when the store is closing."""
        async with self._order:
            before, self.view = self.view, replace(self.view, **fields)
            self._changed.set()
            self._changed = asyncio.Event()
            if change is McpChange.STATE and before == self.view and self._is_published:
                return
            self._is_published = True
            with suppress(Refusal):
                await self._backing.record(self._workspace_id, self.view, change)

    async def publish_offer(self, offer: Offer, change: McpChange, **fields: Any) -> None:
        await self.publish(
            change,
            tool_count=len(offer.tools),
            prompt_count=len(offer.prompts),
            resource_count=len(offer.resources),
            **fields,
        )

    async def change(self) -> None:
        """Waits for the next change."""
        await self._changed.wait()


class CurrentOffer:
    """The offer, updated from the server's notifications while the connection lasts."""

    def __init__(
        self,
        settings: McpSettings,
        status: PublishedStatus,
        redaction: Redaction,
        timeouts: McpTimeouts,
    ) -> None:
        self.offer = Offer()  # the last known one, also during a restart of the server
        self._settings = settings
        self._status = status
        self._redaction = redaction
        self._timeouts = timeouts

    def take(self, offer: Offer) -> None:
        self.offer = allowed(offer, self._settings)

    async def renew(self, connection: McpConnection, change: McpChange) -> bool:
        """Reads one list again. Returns whether it has changed. Raises ``McpFailed``."""
        before, seconds = self.offer, self._settings.timeout_seconds
        self.take(await connection.reread_list(before, change, seconds=seconds))
        return self.offer != before

    async def follow(self, connection: McpConnection) -> McpFailed:
        """Handles notifications until the connection ends. Returns why it ended.

        Raises ``McpConnectionLost``.
        """
        is_remote = self._settings.kind != "stdio"
        while True:
            limit = self._timeouts.ping_seconds if is_remote else None
            if not await wait_until_set(connection.wake, seconds=limit):
                await connection.ping(seconds=self._settings.timeout_seconds)
            connection.wake.clear()
            if connection.has_ended:
                return await connection.end_reason()
            stale = sorted(connection.stale)
            connection.stale.clear()
            for change in stale:
                await self._renew_list(connection, change)
            # Limit how often a server with constant notifications makes this read a list.
            if stale:
                await connection.wait_end(self._timeouts.listing_seconds)

    async def _renew_list(self, connection: McpConnection, change: McpChange) -> None:
        """Notifies clients only of a real change; an unreadable list keeps its last content."""
        try:
            has_changed = await self.renew(connection, change)
        except McpConnectionLost:
            raise
        except McpFailed as failure:
            logger.debug(
                "mcp server %s: %s", self._settings.name, self._redaction.shown(str(failure))
            )
            return
        if has_changed:
            await self._status.publish_offer(self.offer, change)


@dataclass(frozen=True, slots=True)
class Redaction:
    """Formats a failure for people: limited in length, and without the server's secrets."""

    _scrubber: Scrubber = field(repr=False)

    @classmethod
    def of(cls, settings: McpSettings, env: Mapping[str, str], *, path: str) -> Redaction:
        public = (path, env.get("HOME", ""), env.get("PATH", ""))
        return cls(Scrubber.of(_secrets(settings, env), public=public))

    def failure(self, failure: McpFailed) -> McpFailed:
        return McpFailed(self.shown(str(failure)))

    def shown(self, text: str) -> str:
        """Removes control characters and secrets; keeps most of a long text's end."""
        printable = "".join(
            letter if letter.isprintable() or letter == "\n" else " " for letter in text.strip()
        )
        scrubbed = masked_within(str(self._scrubber.scrub(printable)))
        if len(scrubbed) <= MAX_ERROR_CHARS:
            return scrubbed
        head = MAX_ERROR_CHARS // 4
        return f"{scrubbed[:head]} … {scrubbed[head - MAX_ERROR_CHARS :]}"


def _secrets(settings: McpSettings, env: Mapping[str, str]) -> Iterable[str]:
    yield from settings.env.values()
    for value in settings.headers.values():
        yield value
        yield value.rpartition(" ")[2]  # without "Bearer"
    yield settings.oauth_client_secret
    yield from secrets_in_arguments((*settings.args, settings.url))
    yield from (value for name, value in env.items() if is_secret_name(name) or _is_opaque(value))


def _is_opaque(value: str) -> bool:
    """Returns whether a value looks like a secret: long, one word and not a path."""
    return len(value) >= _OPAQUE_CHARS and "/" not in value and not _SPACE.search(value)
