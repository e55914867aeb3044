"""One configured server of one workspace: started, kept alive, started again, ended.

A task of its own holds the connection from its first step to its last. A crash
is followed by a pause that doubles, and after several failures the server is
left alone until somebody asks for it. Nobody ever waits without a limit.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agents.tools.contract import ToolOutcome
from agents.tools.mcp.contract import (
    Backing,
    Change,
    ConnectionLost,
    McpFailed,
    NeedsLogin,
    NotProcessed,
    Offer,
    ProcessIdentity,
    ResourceContent,
    State,
    View,
)
from agents.tools.mcp.limits import AUTH_SECONDS, FIRST_WAIT_SECONDS, Patience
from agents.tools.mcp.login_desk import LoginDesk, open_door
from agents.tools.mcp.pauses import Pauses
from agents.tools.mcp.rules import allowed, asks_login
from agents.tools.mcp.standing import Standing
from agents.tools.mcp.telling import Telling
from workspaces.config.settings import McpSettings
from workspaces.storage.moments import now_ms

if TYPE_CHECKING:
    from agents.tools.mcp.protocol import Connection, Login

logger = logging.getLogger(__name__)

T = TypeVar("T")
_PROTOCOL = "agents.tools.mcp.protocol"


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server runs. At another site, or with other settings, it is another server."""

    workspace_id: str
    path: str
    env: Mapping[str, str] = field(repr=False)


class Server:
    def __init__(
        self,
        site: Site,
        settings: McpSettings,
        *,
        backing: Backing,
        patience: Patience,
        on_login: Callable[[str], None],
    ) -> None:
        self.site = site
        self.settings = settings
        self.offer = Offer()  # as last known, also while the server is started again
        self._backing = backing
        self._patience = patience
        self._on_login = on_login
        self._standing = Standing(site.workspace_id, settings.name, backing)
        self._telling = Telling.of(settings, site.env, path=site.path)
        self._pauses = Pauses(patience)
        self._connection: Connection | None = None
        self._login: Login | None = None
        self._desk = LoginDesk()
        self._woken = asyncio.Event()
        self._settled = asyncio.Event()  # the first attempt has come to something
        self._was_waited_for = False
        self._was_up = False  # in this life
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def view(self) -> View:
        return self._standing.view

    @property
    def login_key(self) -> str:
        """Under which its login is kept; empty where it has none."""
        return self._login.key if self._login is not None else ""

    @property
    def is_offering(self) -> bool:
        """Up, or expected back soon: then its tools stay, and a call waits for it."""
        match self.view.state:
            case State.CONNECTED | State.STARTING:
                return True
            case State.ERROR:
                return self._pauses.seconds is not None
            case State.DISABLED | State.NEEDS_AUTH:
                return False

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._keep(), name=f"mcp {self.name}")
            self._task.add_done_callback(_report)

    async def stop(self) -> None:
        """Ends it with all its processes. Callable twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        self._desk.fail(McpFailed("The server was taken away."))

    # -- asking it

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, sees_images: bool
    ) -> ToolOutcome:
        """Raises ``McpFailed``."""
        return await self._ask(
            lambda connection, seconds: connection.call_tool(
                name, arguments, seconds=seconds, sees_images=sees_images
            )
        )

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Raises ``McpFailed``."""
        return await self._ask(
            lambda connection, seconds: connection.get_prompt(name, arguments, seconds=seconds)
        )

    async def read_resource(self, uri: str) -> tuple[ResourceContent, ...]:
        """Raises ``McpFailed``."""
        return await self._ask(
            lambda connection, seconds: connection.read_resource(uri, seconds=seconds)
        )

    async def refresh(self, change: Change) -> None:
        """Reads a list again; a server that was left alone is tried again. Raises ``McpFailed``."""
        if self._connection is None:
            self._pauses.forget()
            self._woken.set()
            await asyncio.sleep(0)
        await self._ask(lambda connection, _: self._renew(connection, change))
        await self._standing.show_offer(self.offer, change)

    async def wait_first(self) -> None:
        """For the first attempt, within limits, and never a second time."""
        if self._settled.is_set() or self._was_waited_for:
            return
        limit = min(FIRST_WAIT_SECONDS, self.settings.timeout_seconds + 1)
        try:
            await asyncio.wait_for(self._settled.wait(), limit)
        except TimeoutError:
            self._was_waited_for = True

    async def nudge(self) -> None:
        """Somebody could use it: one left alone is tried once in a while, without a wait."""
        state = self.view.state
        if state is State.NEEDS_AUTH and self._login is not None:
            secret = await self._backing.load_secret(self._login.key)
            if secret is not None and secret.changed_at > self._login.changed_at:
                self.wake()  # somebody logged in elsewhere
        elif (
            state is State.ERROR
            and self._pauses.seconds is None
            and self._pauses.may_be_tried(asyncio.get_running_loop().time())
        ):
            self.wake()

    def wake(self) -> None:
        self._woken.set()

    async def log_in(self) -> None:
        """Until a person has let us in. Raises ``McpFailed``. Several may wait for one login."""
        if self._connection is not None and not self._connection.is_over:
            return
        if not asks_login(self.settings):
            raise McpFailed("The server asks for no login.")
        self._desk.ask()
        self._woken.set()
        try:
            await self._desk.wait()
        except McpFailed as failure:
            raise self._told(failure) from None

    async def _ask(self, question: Callable[[Connection, float], Awaitable[T]]) -> T:
        seconds = max(self._patience.call_seconds, self.settings.timeout_seconds)
        try:
            connection = await self._ready()
            try:
                return await question(connection, seconds)
            except NotProcessed:  # it was started anew and does not know us
                self._connection = None
                connection.end()
                return await question(await self._ready(), seconds)
        except McpFailed as failure:
            raise self._told(failure) from None

    async def _ready(self) -> Connection:
        """The connection, also when it comes back within moments. Raises ``McpFailed``."""
        try:
            async with asyncio.timeout(FIRST_WAIT_SECONDS):
                while True:
                    connection = self._connection
                    if connection is not None and not connection.is_over:
                        return connection
                    view = self.view
                    if view.state is State.NEEDS_AUTH:
                        raise McpFailed("The server needs a login first.")
                    if view.state is State.DISABLED or self._task is None:
                        raise McpFailed("The server is switched off.")
                    if view.state is State.ERROR and not self._pauses.is_short:
                        raise McpFailed(f"The server does not run. {view.error}")
                    await self._standing.change()
        except TimeoutError:
            raise McpFailed(f"The server does not run yet. {self.view.error}".strip()) from None

    async def _renew(self, connection: Connection, change: Change) -> bool:
        """Reads one list again; whether it has changed."""
        before, seconds = self.offer, self.settings.timeout_seconds
        self.offer = allowed(
            await connection.renewed(before, change, seconds=seconds), self.settings
        )
        return self.offer != before

    def _told(self, failure: McpFailed) -> McpFailed:
        return McpFailed(self._telling.sentence(str(failure)))

    # -- its life, in a task of its own

    async def _keep(self) -> None:
        if self.settings.is_disabled:
            state = State.ERROR if self.settings.fault else State.DISABLED
            await self._standing.show(state=state, error=self.settings.fault)
            self._settled.set()
            return
        await asyncio.to_thread(importlib.import_module, _PROTOCOL)
        from agents.tools.mcp.protocol import Login  # noqa: PLC0415

        if asks_login(self.settings):
            self._login = Login(self.settings, self._backing)
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            began = loop.time()
            if self._desk.is_asked and self._login is not None:
                failure = await self._live_logging_in(self._login)
            else:
                await self._standing.show(state=State.STARTING, error="")
                failure = await self._live()
            was_up, self._was_up = self._was_up, False
            self._connection = None
            self._pauses.failed(loop.time(), lived=loop.time() - began if was_up else 0.0)
            needs_login = isinstance(failure, NeedsLogin)
            if needs_login and was_up and self._pauses.is_short:
                continue  # the token has ended: there may be a way to another
            await self._standing.show(
                state=State.NEEDS_AUTH if needs_login else State.ERROR,
                error="" if needs_login else str(self._told(failure)),
                auth_url="",
                connected_at=None,
                process=ProcessIdentity(),
            )
            self._settled.set()
            await self._pause(None if needs_login else self._pauses.seconds)

    async def _pause(self, seconds: float | None) -> None:
        if self._desk.is_asked:
            return
        try:
            await asyncio.wait_for(self._woken.wait(), seconds)
        except TimeoutError:
            return

    async def _live(self) -> McpFailed:
        """Until its end; why it ended."""
        failure = await self._attempt()
        if isinstance(failure, NeedsLogin) and self._login is not None and self._login.can_renew:
            failure = await self._attempt(renew=True)
        return failure

    async def _live_logging_in(self, login: Login) -> McpFailed:
        async with AsyncExitStack() as door:
            try:
                await open_door(door, login, self.settings, self._tell_address)
            except McpFailed as failure:
                self._desk.fail(failure)
                return NeedsLogin()

            async def let_in() -> None:
                login.end()
                await door.aclose()
                self._on_login(login.key)

            ended = await self._attempt(more_seconds=AUTH_SECONDS, then=let_in)
            login.end()
        self._desk.fail(ended)
        # Not let in is not broken: the next try is a person's.
        return ended if self._was_up or isinstance(ended, ConnectionLost) else NeedsLogin()

    async def _attempt(
        self,
        *,
        renew: bool = False,
        more_seconds: float = 0.0,
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> McpFailed:
        """One connection from its beginning to its end; why it ended."""
        from agents.tools.mcp.protocol import Attempt, live  # noqa: PLC0415

        login = self._login
        if login is not None and not login.is_interactive:
            await login.load()
        attempt = Attempt(
            settings=self.settings,
            cwd=Path(self.site.path),
            env={**self.site.env, **self.settings.env},
            leave_seconds=self._patience.leave_seconds,
            login=login,
            renew=renew,
        )

        async def attend(connection: Connection, offer: Offer) -> McpFailed:
            await self._be_up(connection, offer)
            if then is not None:
                await then()
            return await self._over(connection)

        return await live(attempt, attend, more_seconds=more_seconds)

    async def _be_up(self, connection: Connection, offer: Offer) -> None:
        self.offer = allowed(offer, self.settings)
        self._connection = connection
        self._was_up = True
        await self._standing.show_offer(
            self.offer,
            Change.STATE,
            state=State.CONNECTED,
            error="",
            auth_url="",
            connected_at=now_ms(),
            process=connection.process,
        )
        self._settled.set()
        self._desk.let_in()

    async def _over(self, connection: Connection) -> McpFailed:
        """Hears what the server says by itself, until it is over; why it is."""
        is_distant = self.settings.kind != "stdio"
        while True:
            try:
                await asyncio.wait_for(
                    connection.wake.wait(), self._patience.ping_seconds if is_distant else None
                )
            except TimeoutError:
                await connection.ping(seconds=self.settings.timeout_seconds)
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

    async def _hear_change(self, connection: Connection, change: Change) -> None:
        """Told only when it is one; a list that cannot be read stays as it was known."""
        try:
            has_changed = await self._renew(connection, change)
        except ConnectionLost:
            raise
        except McpFailed as failure:
            logger.debug("mcp server %s: %s", self.name, self._told(failure))
            return
        if has_changed:
            await self._standing.show_offer(self.offer, change)

    async def _tell_address(self, url: str) -> None:
        await self._standing.show(state=State.NEEDS_AUTH, error="", auth_url=url)


def _report(task: asyncio.Task[None]) -> None:
    """A mistake of ours: without this nobody would hear of it."""
    if not task.cancelled() and task.exception() is not None:
        logger.error("%s broke", task.get_name(), exc_info=task.exception())
