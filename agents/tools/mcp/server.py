"""One configured server of one workspace, as callers use it. Every wait has a limit.

The supervisor starts the server, keeps it connected and restarts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from agents.config.settings import McpSettings
from agents.tools.contract import ToolOutcome
from agents.tools.mcp.contract import (
    Backing,
    McpChange,
    McpFailed,
    McpServerView,
    McpStatus,
    NotProcessed,
    Offer,
    ResourceContent,
    may_require_login,
)
from agents.tools.mcp.limits import McpTimeouts
from agents.tools.mcp.status import CurrentOffer, PublishedStatus, Redaction
from agents.tools.mcp.supervisor import McpSupervisor, Site
from workspaces.tasks import wait_until_set

if TYPE_CHECKING:
    from agents.tools.mcp.protocol.connection import McpConnection

T = TypeVar("T")


class McpServerClient:
    def __init__(
        self,
        site: Site,
        settings: McpSettings,
        *,
        backing: Backing,
        timeouts: McpTimeouts,
        on_login: Callable[[str], None],
    ) -> None:
        self.site = site
        self.settings = settings
        self._backing = backing
        self._timeouts = timeouts
        self._status = PublishedStatus(site.workspace_id, settings.name, backing)
        self._redaction = Redaction.of(settings, site.env, path=site.path)
        self._offer = CurrentOffer(settings, self._status, self._redaction, timeouts)
        self._supervisor = McpSupervisor(
            site,
            settings,
            self._status,
            self._offer,
            self._redaction,
            backing=backing,
            timeouts=timeouts,
            on_login=on_login,
        )
        self._was_waited_for = False

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def view(self) -> McpServerView:
        return self._status.view

    @property
    def offer(self) -> Offer:
        """The last known offer, also during a restart of the server."""
        return self._offer.offer

    @property
    def login_key(self) -> str:
        """The key of its stored login; empty if it has none."""
        return self._supervisor.login.key if self._supervisor.login is not None else ""

    @property
    def is_offering(self) -> bool:
        """Whether the server is connected or will retry: its tools then stay available."""
        match self.view.state:
            case McpStatus.CONNECTED | McpStatus.STARTING:
                return True
            case McpStatus.ERROR:
                return self._supervisor.pauses.seconds is not None
            case McpStatus.DISABLED | McpStatus.NEEDS_AUTH:
                return False

    def start(self) -> None:
        self._supervisor.start()

    async def stop(self) -> None:
        """Ends the server with all its processes. Idempotent."""
        await self._supervisor.stop()

    def wake(self) -> None:
        self._supervisor.wake()

    # -- requests

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, sees_images: bool, key: str = ""
    ) -> ToolOutcome:
        """Calls a tool. ``key``: the same if the call is repeated. Raises ``McpFailed``."""
        return await self._request(
            lambda connection, seconds: connection.call_tool(
                name, arguments, key=key, seconds=seconds, sees_images=sees_images
            )
        )

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Raises ``McpFailed``."""
        return await self._request(
            lambda connection, seconds: connection.get_prompt(name, arguments, seconds=seconds)
        )

    async def read_resource(self, uri: str) -> tuple[ResourceContent, ...]:
        """Raises ``McpFailed``."""
        return await self._request(
            lambda connection, seconds: connection.read_resource(uri, seconds=seconds)
        )

    async def refresh(self, change: McpChange) -> None:
        """Reads a list again, after starting a stopped server. Raises ``McpFailed``."""
        supervisor = self._supervisor
        if supervisor.connection is None:
            supervisor.pauses.reset()
            supervisor.wake()
            await asyncio.sleep(0)
        await self._request(lambda connection, _: self._offer.renew(connection, change))
        await self._status.publish_offer(self.offer, change)

    async def _request(self, send: Callable[[McpConnection, float], Awaitable[T]]) -> T:
        seconds = max(self._timeouts.call_seconds, self.settings.timeout_seconds)
        try:
            connection = await self._ready()
            try:
                return await send(connection, seconds)
            except NotProcessed:  # the server has restarted and lost the session
                self._supervisor.abandon(connection)
                return await send(await self._ready(), seconds)
        except McpFailed as failure:
            raise self._redaction.failure(failure) from None

    async def _ready(self) -> McpConnection:
        """Returns the connection, after a short wait if necessary. Raises ``McpFailed``."""
        supervisor = self._supervisor
        try:
            async with asyncio.timeout(self._timeouts.first_wait_seconds):
                while True:
                    connection = supervisor.connection
                    if connection is not None and not connection.has_ended:
                        return connection
                    view = self.view
                    if view.state is McpStatus.NEEDS_AUTH:
                        raise McpFailed("The server requires a login first.")
                    if view.state is McpStatus.DISABLED or not supervisor.is_running:
                        raise McpFailed("The server is disabled.")
                    if view.state is McpStatus.ERROR and not supervisor.pauses.is_short:
                        raise McpFailed(f"The server is not running. {view.error}")
                    await self._status.change()
        except TimeoutError:
            raise McpFailed(f"The server is not running yet. {self.view.error}".strip()) from None

    # -- lifecycle

    @property
    def is_late(self) -> bool:
        """Whether its first attempt is not yet complete."""
        return not self._supervisor.settled.is_set()

    async def wait_first(self, seconds: float | None = None) -> None:
        """Waits for the first attempt, within limits. After one timeout it never waits again."""
        if self._supervisor.settled.is_set() or self._was_waited_for:
            return
        longest = self._timeouts.first_wait_seconds if seconds is None else seconds
        limit = min(longest, self.settings.timeout_seconds + 1)
        if not await wait_until_set(self._supervisor.settled, seconds=limit):
            self._was_waited_for = True

    async def retry_if_stopped(self) -> None:
        """Retries a stopped server occasionally when a run could use it, without waiting."""
        state, login, pauses = self.view.state, self._supervisor.login, self._supervisor.pauses
        if state is McpStatus.NEEDS_AUTH and login is not None:
            secret = await self._backing.load_secret(login.key)
            if secret is not None and secret.changed_at > login.changed_at:
                self.wake()  # a person logged in through another workspace or process
        elif (
            state is McpStatus.ERROR
            and pauses.seconds is None
            and pauses.may_be_tried(asyncio.get_running_loop().time())
        ):
            self.wake()

    async def log_in(self) -> None:
        """Requests a login and waits until a person completes it. Raises ``McpFailed``.

        Several callers may wait for one login.
        """
        supervisor = self._supervisor
        connection = supervisor.connection
        if connection is not None and not connection.has_ended:
            if supervisor.login is None or not supervisor.login.refusal:
                return
            supervisor.abandon(connection)  # it lacks the rights that the new login will request
        if not may_require_login(self.settings):
            raise McpFailed("The server requires no login.")
        supervisor.login_request.start()
        self.wake()
        try:
            await supervisor.login_request.wait()
        except McpFailed as failure:
            raise self._redaction.failure(failure) from None
