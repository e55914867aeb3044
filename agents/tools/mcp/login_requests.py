"""A login that somebody asked for: several may wait for the same one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from agents.config.settings import McpSettings
from agents.tools.mcp.callback import listening
from agents.tools.mcp.contract import McpFailed

if TYPE_CHECKING:
    from agents.tools.mcp.login import Login


class LoginDesk:
    def __init__(self) -> None:
        self._asked: asyncio.Future[None] | None = None

    @property
    def is_asked(self) -> bool:
        return self._asked is not None and not self._asked.done()

    def ask(self) -> None:
        if not self.is_asked:
            self._asked = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """Raises ``McpFailed`` when it came to nothing."""
        if self._asked is not None:
            await asyncio.shield(self._asked)

    def let_in(self) -> None:
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)

    def fail(self, failure: McpFailed) -> None:
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(failure)
            self._asked.exception()  # also when nobody waits any more


async def open_door(
    door: AsyncExitStack,
    login: Login,
    settings: McpSettings,
    tell: Callable[[str], Awaitable[None]],
) -> None:
    """Listens where the browser will return, until ``door`` is closed. Raises ``McpFailed``."""
    await login.load()
    try:
        callback = await door.enter_async_context(listening(login.port))
    except McpFailed:
        if settings.oauth_callback_port or not login.port:
            raise
        # The port of the last time is taken; another means another registration.
        callback = await door.enter_async_context(listening(0))
    login.begin(callback, tell)
