"""Keeps one server connected: starts it, restarts it after a crash, logs in, stops it.

One task owns the connection from its start to its end. A restart follows each crash
after a pause that doubles. After several failures the server stays stopped until a
caller requests it.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agents.config.settings import McpSettings
from agents.tools.mcp.browser_login import LoginRequest
from agents.tools.mcp.contract import (
    Backing,
    McpChange,
    McpConnectionLost,
    McpFailed,
    McpStatus,
    NeedsLogin,
    Offer,
    ProcessIdentity,
    may_require_login,
)
from agents.tools.mcp.limits import McpTimeouts
from agents.tools.mcp.status import CurrentOffer, PublishedStatus, Redaction
from workspaces.backoff import pause_after
from workspaces.log.timestamps import now_ms
from workspaces.tasks import wait_until_set

if TYPE_CHECKING:
    from agents.tools.mcp.protocol.connection import McpConnection
    from agents.tools.mcp.protocol.login import Login


class Pauses:
    def __init__(self, timeouts: McpTimeouts) -> None:
        self._timeouts = timeouts
        self._failures = 0
        self._failed_at = 0.0

    def failed(self, now: float, *, connected_seconds: float) -> None:
        """Counts a failure. ``connected_seconds`` is the time for which the server was connected."""
        if connected_seconds >= self._timeouts.stable_seconds:
            self._failures = 0
        self._failures += 1
        self._failed_at = now

    def reset(self) -> None:
        self._failures = 0

    @property
    def seconds(self) -> float | None:
        """The pause before the next attempt; ``None`` if that needs a request."""
        if self._failures >= self._timeouts.most_failures:
            return None
        return pause_after(
            self._failures,
            first_seconds=self._timeouts.first_pause_seconds,
            limit_seconds=self._timeouts.longest_pause_seconds,
        )

    @property
    def is_short(self) -> bool:
        """Whether the next attempt comes soon enough to wait for it."""
        return self._failures <= 2

    def may_be_tried(self, now: float) -> bool:
        """Whether the last failure is old enough for another attempt on request."""
        return now - self._failed_at >= self._timeouts.retry_seconds


logger = logging.getLogger(__name__)

_PROTOCOL = "agents.tools.mcp.protocol.session"


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server runs. A different site or different settings make a different server."""

    workspace_id: str
    path: str
    env: Mapping[str, str] = field(repr=False)


class McpSupervisor:
    def __init__(
        self,
        site: Site,
        settings: McpSettings,
        status: PublishedStatus,
        offer: CurrentOffer,
        redaction: Redaction,
        *,
        backing: Backing,
        timeouts: McpTimeouts,
        on_login: Callable[[str], None],
    ) -> None:
        self.pauses = Pauses(timeouts)
        self.login_request = LoginRequest()
        self.connection: McpConnection | None = None
        self.login: Login | None = None
        self.settled = asyncio.Event()  # set after the first attempt, whether it succeeded or not
        self._site = site
        self._settings = settings
        self._status = status
        self._offer = offer
        self._redaction = redaction
        self._backing = backing
        self._timeouts = timeouts
        self._on_login = on_login
        self._woken = asyncio.Event()
        self._was_connected = False  # in the current attempt
        self._handshake_only = False  # the server exits on the request for its revision
        self._has_restarted = False  # the one immediate restart that only uses the handshake
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"mcp {self._settings.name}")
            self._task.add_done_callback(_report)

    async def stop(self) -> None:
        """Ends the server with all its processes. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        self.login_request.fail(McpFailed("The server was stopped."))

    def wake(self) -> None:
        """Ends the pause, so that the next attempt starts now."""
        self._woken.set()

    def abandon(self, connection: McpConnection) -> None:
        """Ends a connection that no longer works; the task then opens another."""
        self.connection = None
        connection.end()

    async def _run(self) -> None:
        if self._settings.is_disabled:
            state = McpStatus.ERROR if self._settings.fault else McpStatus.DISABLED
            await self._status.publish(state=state, error=self._settings.fault)
            self.settled.set()
            return
        await asyncio.to_thread(importlib.import_module, _PROTOCOL)
        from agents.tools.mcp.protocol.login import Login  # noqa: PLC0415  loaded by the line above

        if may_require_login(self._settings):
            self.login = Login(self._settings, self._backing, self._timeouts)
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            began = loop.time()
            if self.login_request.is_pending and self.login is not None:
                failure = await self._run_login(self.login)
            else:
                await self._status.publish(state=McpStatus.STARTING, error="")
                failure = await self._run_once()
            was_connected, self._was_connected = self._was_connected, False
            self.connection = None
            self.pauses.failed(
                loop.time(), connected_seconds=loop.time() - began if was_connected else 0.0
            )
            needs_login = isinstance(failure, NeedsLogin)
            if needs_login and was_connected and self.pauses.is_short:
                continue  # the token has expired: the next attempt may renew it
            if self.login_request.is_pending and was_connected:
                continue  # a person logs in again to grant more rights
            await self._status.publish(
                state=McpStatus.NEEDS_AUTH if needs_login else McpStatus.ERROR,
                error="" if needs_login else self._redaction.shown(str(failure)),
                auth_url="",
                connected_at=None,
                process=ProcessIdentity(),
            )
            self.settled.set()
            await self._pause(None if needs_login else self.pauses.seconds)

    async def _pause(self, seconds: float | None) -> None:
        if not self.login_request.is_pending:
            await wait_until_set(self._woken, seconds=seconds)

    async def _run_once(self) -> McpFailed:
        """Runs the server until it ends. Returns why it ended."""
        failure = await self._attempt()
        if self._handshake_only and not self._has_restarted:
            self._has_restarted = True
            failure = await self._attempt()
        if isinstance(failure, NeedsLogin) and self.login is not None and self.login.can_renew:
            failure = await self._attempt(renew=True)
        return failure

    async def _run_login(self, login: Login) -> McpFailed:
        async with AsyncExitStack() as stack:
            try:
                await login.open_callback(stack, self._publish_login_url)
            except McpFailed as failure:
                self.login_request.fail(failure)
                return NeedsLogin()

            async def end_login() -> None:
                login.end()
                await stack.aclose()
                self._on_login(login.key)

            ended = await self._attempt(more_seconds=self._timeouts.login_seconds, then=end_login)
            login.end()
        if not self._was_connected:  # otherwise the pending request may be for the next login
            self.login_request.fail(ended)
        # A failed login is not a failed server: the next attempt needs a person.
        return (
            ended if self._was_connected or isinstance(ended, McpConnectionLost) else NeedsLogin()
        )

    async def _publish_login_url(self, url: str) -> None:
        await self._status.publish(state=McpStatus.NEEDS_AUTH, error="", auth_url=url)

    async def _attempt(
        self,
        *,
        renew: bool = False,
        more_seconds: float = 0.0,
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> McpFailed:
        """Runs one connection from its start to its end. Returns why it ended."""
        from agents.tools.mcp.protocol.attempt import McpAttempt  # noqa: PLC0415  `_run` has loaded it
        from agents.tools.mcp.protocol.session import run_connection  # noqa: PLC0415  the same

        login = self.login
        if login is not None and not login.is_interactive:
            await login.load()
        attempt = McpAttempt(
            settings=self._settings,
            cwd=Path(self._site.path),
            env={**self._site.env, **self._settings.env},
            timeouts=self._timeouts,
            login=login,
            renew=renew,
            handshake_only=self._handshake_only,
        )

        async def use(connection: McpConnection, offer: Offer) -> McpFailed:
            await self._on_connected(connection, offer)
            if then is not None:
                await then()
            return await self._offer.follow(connection)

        failure = await run_connection(attempt, use, more_seconds=more_seconds)
        if not self._was_connected:
            # A command that exits on the first probe may only support the older handshake.
            is_its_end = attempt.child is not None and isinstance(failure, McpConnectionLost)
            self._handshake_only = attempt.is_probing and is_its_end
        return failure

    async def _on_connected(self, connection: McpConnection, offer: Offer) -> None:
        self._offer.take(offer)
        self.connection = connection
        self._was_connected = True
        await self._status.publish_offer(
            self._offer.offer,
            McpChange.STATE,
            state=McpStatus.CONNECTED,
            error="",
            auth_url="",
            connected_at=now_ms(),
            process=connection.process,
        )
        self.settled.set()
        self.login_request.succeed()


def _report(task: asyncio.Task[None]) -> None:
    """Logs an unexpected exception of the task, which nothing else reports."""
    if not task.cancelled() and task.exception() is not None:
        logger.error("%s failed", task.get_name(), exc_info=task.exception())
