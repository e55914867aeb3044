"""One configured server of one workspace, as others ask it. Nobody ever waits without a limit.

That it is started, kept alive and started again is its keeper's.
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
    asks_login,
)
from agents.tools.mcp.limits import Patience
from agents.tools.mcp.supervisor import Keeper, Site
from workspaces.tasks import wait_until_set

if TYPE_CHECKING:
    from agents.tools.mcp.session import McpConnection

T = TypeVar("T")


class McpServerClient:
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
        self._backing = backing
        self._patience = patience
        self._keeper = Keeper(site, settings, backing=backing, patience=patience, on_login=on_login)
        self._was_waited_for = False

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def view(self) -> McpServerView:
        return self._keeper.standing.view

    @property
    def offer(self) -> Offer:
        """As last known, also while the server is started again."""
        return self._keeper.offering.offer

    @property
    def login_key(self) -> str:
        """Under which its login is kept; empty where it has none."""
        return self._keeper.login.key if self._keeper.login is not None else ""

    @property
    def is_offering(self) -> bool:
        """Up, or expected back soon: then its tools stay, and a call waits for it."""
        match self.view.state:
            case McpStatus.CONNECTED | McpStatus.STARTING:
                return True
            case McpStatus.ERROR:
                return self._keeper.pauses.seconds is not None
            case McpStatus.DISABLED | McpStatus.NEEDS_AUTH:
                return False

    def start(self) -> None:
        self._keeper.start()

    async def stop(self) -> None:
        """Ends it with all its processes. Callable twice."""
        await self._keeper.stop()

    def wake(self) -> None:
        self._keeper.wake()

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

    async def refresh(self, change: McpChange) -> None:
        """Reads a list again; a server that was left alone is tried again. Raises ``McpFailed``."""
        keeper = self._keeper
        if keeper.connection is None:
            keeper.pauses.forget()
            keeper.wake()
            await asyncio.sleep(0)
        await self._ask(lambda connection, _: keeper.offering.renew(connection, change))
        await keeper.standing.show_offer(self.offer, change)

    async def _ask(self, question: Callable[[McpConnection, float], Awaitable[T]]) -> T:
        seconds = max(self._patience.call_seconds, self.settings.timeout_seconds)
        try:
            connection = await self._ready()
            try:
                return await question(connection, seconds)
            except NotProcessed:  # it was started anew and does not know us
                self._keeper.give_up(connection)
                return await question(await self._ready(), seconds)
        except McpFailed as failure:
            raise self._keeper.told(failure) from None

    async def _ready(self) -> McpConnection:
        """The connection, also when it comes back within moments. Raises ``McpFailed``."""
        keeper = self._keeper
        try:
            async with asyncio.timeout(self._patience.first_wait_seconds):
                while True:
                    connection = keeper.connection
                    if connection is not None and not connection.is_over:
                        return connection
                    view = self.view
                    if view.state is McpStatus.NEEDS_AUTH:
                        raise McpFailed("The server needs a login first.")
                    if view.state is McpStatus.DISABLED or not keeper.is_kept:
                        raise McpFailed("The server is switched off.")
                    if view.state is McpStatus.ERROR and not keeper.pauses.is_short:
                        raise McpFailed(f"The server does not run. {view.error}")
                    await keeper.standing.change()
        except TimeoutError:
            raise McpFailed(f"The server does not run yet. {self.view.error}".strip()) from None

    # -- having it up

    @property
    def is_late(self) -> bool:
        """Its first attempt has not come to an end yet."""
        return not self._keeper.settled.is_set()

    async def wait_first(self, seconds: float | None = None) -> None:
        """For the first attempt, within limits, and never a second time."""
        if self._keeper.settled.is_set() or self._was_waited_for:
            return
        longest = self._patience.first_wait_seconds if seconds is None else seconds
        limit = min(longest, self.settings.timeout_seconds + 1)
        if not await wait_until_set(self._keeper.settled, seconds=limit):
            self._was_waited_for = True

    async def nudge(self) -> None:
        """Somebody could use it: one left alone is tried once in a while, without a wait."""
        state, login, pauses = self.view.state, self._keeper.login, self._keeper.pauses
        if state is McpStatus.NEEDS_AUTH and login is not None:
            secret = await self._backing.load_secret(login.key)
            if secret is not None and secret.changed_at > login.changed_at:
                self.wake()  # somebody logged in elsewhere
        elif (
            state is McpStatus.ERROR
            and pauses.seconds is None
            and pauses.may_be_tried(asyncio.get_running_loop().time())
        ):
            self.wake()

    async def log_in(self) -> None:
        """Until a person has let us in. Raises ``McpFailed``. Several may wait for one login."""
        keeper = self._keeper
        connection = keeper.connection
        if connection is not None and not connection.is_over:
            if keeper.login is None or not keeper.login.refusal:
                return
            keeper.give_up(connection)  # it goes on with the rights that it was refused
        if not asks_login(self.settings):
            raise McpFailed("The server asks for no login.")
        keeper.desk.ask()
        self.wake()
        try:
            await keeper.desk.wait()
        except McpFailed as failure:
            raise keeper.told(failure) from None
