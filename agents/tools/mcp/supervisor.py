"""Keeps one server connected: started, started again after a crash, let in by a login, ended.

A task of its own holds the connection from its first step to its last. A crash
is followed by a pause that doubles, and after several failures the server is
left alone until somebody asks for it.
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
from agents.tools.mcp.contract import (
    Backing,
    McpChange,
    McpConnectionLost,
    McpFailed,
    McpStatus,
    NeedsLogin,
    Offer,
    ProcessIdentity,
    asks_login,
)
from agents.tools.mcp.limits import Patience
from agents.tools.mcp.login_requests import LoginDesk, open_door
from agents.tools.mcp.offering import Offering
from agents.tools.mcp.redaction import Telling
from agents.tools.mcp.status import Standing
from workspaces.log.timestamps import now_ms
from workspaces.tasks import wait_until_set

if TYPE_CHECKING:
    from agents.tools.mcp.session import Login, McpConnection


class Pauses:
    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failures = 0
        self._failed_at = 0.0

    def failed(self, now: float, *, lived: float) -> None:
        """``lived``: how long it had been connected."""
        if lived >= self._patience.steady_seconds:
            self._failures = 0
        self._failures += 1
        self._failed_at = now

    def forget(self) -> None:
        self._failures = 0

    @property
    def seconds(self) -> float | None:
        """Until the next attempt; ``None``: only when somebody asks."""
        if self._failures >= self._patience.tries:
            return None
        longest = self._patience.longest_pause_seconds
        return float(min(longest, self._patience.first_pause_seconds * 2 ** (self._failures - 1)))

    @property
    def is_short(self) -> bool:
        """The next attempt is worth waiting for."""
        return self._failures <= 2

    def may_be_tried(self, now: float) -> bool:
        """A server left alone, once in a while."""
        return now - self._failed_at >= self._patience.again_seconds


logger = logging.getLogger(__name__)

_PROTOCOL = "agents.tools.mcp.session"


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server runs. At another site, or with other settings, it is another server."""

    workspace_id: str
    path: str
    env: Mapping[str, str] = field(repr=False)


class Keeper:
    def __init__(
        self,
        site: Site,
        settings: McpSettings,
        *,
        backing: Backing,
        patience: Patience,
        on_login: Callable[[str], None],
    ) -> None:
        self.standing = Standing(site.workspace_id, settings.name, backing)
        self.pauses = Pauses(patience)
        self.desk = LoginDesk()
        self.connection: McpConnection | None = None
        self.login: Login | None = None
        self.settled = asyncio.Event()  # the first attempt has come to something
        self._site = site
        self._settings = settings
        self._backing = backing
        self._patience = patience
        self._on_login = on_login
        self._telling = Telling.of(settings, site.env, path=site.path)
        self.offering = Offering(settings, self.standing, self._telling, patience)
        self._woken = asyncio.Event()
        self._was_up = False  # in this life
        self._handshake_only = False  # the server ends when it is asked for its revision
        self._has_restarted = False  # for the handshake alone, without a pause
        self._task: asyncio.Task[None] | None = None

    @property
    def is_kept(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._keep(), name=f"mcp {self._settings.name}")
            self._task.add_done_callback(_report)

    async def stop(self) -> None:
        """Ends it with all its processes. Callable twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        self.desk.fail(McpFailed("The server was taken away."))

    def wake(self) -> None:
        """It is worth another attempt now."""
        self._woken.set()

    def give_up(self, connection: McpConnection) -> None:
        """It is of no use any more; another is made."""
        self.connection = None
        connection.end()

    def told(self, failure: McpFailed) -> McpFailed:
        """The failure as people may read it."""
        return McpFailed(self._telling.sentence(str(failure)))

    async def _keep(self) -> None:
        if self._settings.is_disabled:
            state = McpStatus.ERROR if self._settings.fault else McpStatus.DISABLED
            await self.standing.show(state=state, error=self._settings.fault)
            self.settled.set()
            return
        await asyncio.to_thread(importlib.import_module, _PROTOCOL)
        from agents.tools.mcp.session import Login  # noqa: PLC0415  it is loaded now

        if asks_login(self._settings):
            self.login = Login(self._settings, self._backing, self._patience)
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            began = loop.time()
            if self.desk.is_asked and self.login is not None:
                failure = await self._live_logging_in(self.login)
            else:
                await self.standing.show(state=McpStatus.STARTING, error="")
                failure = await self._live()
            was_up, self._was_up = self._was_up, False
            self.connection = None
            self.pauses.failed(loop.time(), lived=loop.time() - began if was_up else 0.0)
            needs_login = isinstance(failure, NeedsLogin)
            if needs_login and was_up and self.pauses.is_short:
                continue  # the token has ended: there may be a way to another
            if self.desk.is_asked and was_up:
                continue  # a person logs in again, for more rights
            await self.standing.show(
                state=McpStatus.NEEDS_AUTH if needs_login else McpStatus.ERROR,
                error="" if needs_login else str(self.told(failure)),
                auth_url="",
                connected_at=None,
                process=ProcessIdentity(),
            )
            self.settled.set()
            await self._pause(None if needs_login else self.pauses.seconds)

    async def _pause(self, seconds: float | None) -> None:
        if not self.desk.is_asked:
            await wait_until_set(self._woken, seconds=seconds)

    async def _live(self) -> McpFailed:
        """Until its end; why it ended."""
        failure = await self._attempt()
        if self._handshake_only and not self._has_restarted:
            self._has_restarted = True
            failure = await self._attempt()
        if isinstance(failure, NeedsLogin) and self.login is not None and self.login.can_renew:
            failure = await self._attempt(renew=True)
        return failure

    async def _live_logging_in(self, login: Login) -> McpFailed:
        async with AsyncExitStack() as door:
            try:
                await open_door(door, login, self._settings, self._tell_address)
            except McpFailed as failure:
                self.desk.fail(failure)
                return NeedsLogin()

            async def let_in() -> None:
                login.end()
                await door.aclose()
                self._on_login(login.key)

            ended = await self._attempt(more_seconds=self._patience.auth_seconds, then=let_in)
            login.end()
        if not self._was_up:  # else somebody may have asked for the next login
            self.desk.fail(ended)
        # Not let in is not broken: the next try is a person's.
        return ended if self._was_up or isinstance(ended, McpConnectionLost) else NeedsLogin()

    async def _tell_address(self, url: str) -> None:
        await self.standing.show(state=McpStatus.NEEDS_AUTH, error="", auth_url=url)

    async def _attempt(
        self,
        *,
        renew: bool = False,
        more_seconds: float = 0.0,
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> McpFailed:
        """One connection from its beginning to its end; why it ended."""
        from agents.tools.mcp.session import McpAttempt, live  # noqa: PLC0415  `_keep` has loaded it

        login = self.login
        if login is not None and not login.is_interactive:
            await login.load()
        attempt = McpAttempt(
            settings=self._settings,
            cwd=Path(self._site.path),
            env={**self._site.env, **self._settings.env},
            patience=self._patience,
            login=login,
            renew=renew,
            handshake_only=self._handshake_only,
        )

        async def attend(connection: McpConnection, offer: Offer) -> McpFailed:
            await self._be_up(connection, offer)
            if then is not None:
                await then()
            return await self.offering.follow(connection)

        failure = await live(attempt, attend, more_seconds=more_seconds)
        if not self._was_up:
            # A command that ends before it was asked anything else may speak the other era.
            is_its_end = attempt.child is not None and isinstance(failure, McpConnectionLost)
            self._handshake_only = attempt.is_probing and is_its_end
        return failure

    async def _be_up(self, connection: McpConnection, offer: Offer) -> None:
        self.offering.take(offer)
        self.connection = connection
        self._was_up = True
        await self.standing.show_offer(
            self.offering.offer,
            McpChange.STATE,
            state=McpStatus.CONNECTED,
            error="",
            auth_url="",
            connected_at=now_ms(),
            process=connection.process,
        )
        self.settled.set()
        self.desk.let_in()


def _report(task: asyncio.Task[None]) -> None:
    """A mistake of ours: without this nobody would hear of it."""
    if not task.cancelled() and task.exception() is not None:
        logger.error("%s broke", task.get_name(), exc_info=task.exception())
