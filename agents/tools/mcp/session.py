"""One life of a connection: begun, attended to, and why it ended, whatever happened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from agents.tools.mcp.attempt import Attempt
from agents.tools.mcp.connecting import connected
from agents.tools.mcp.connection import Connection
from agents.tools.mcp.contract import McpFailed, Offer
from agents.tools.mcp.failures import failure_of

logger = logging.getLogger(__name__)

Attend = Callable[[Connection, Offer], Awaitable[McpFailed]]


async def live(attempt: Attempt, attend: Attend, *, more_seconds: float = 0.0) -> McpFailed:
    """``attend`` is given the connection when it is up, and returns or raises when it is over.

    Never raises but a cancel. ``more_seconds``: for a person to log in meanwhile.
    """
    seconds = attempt.settings.timeout_seconds
    try:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(seconds + more_seconds):
                    connection = await stack.enter_async_context(connected(attempt))
                    offer = await connection.offer(seconds=seconds)
            except TimeoutError:
                raise McpFailed(
                    f"The server did not start within {seconds:g} seconds. {attempt.said()}"
                ) from None
            raise await attend(connection, offer)
    except (Exception, BaseExceptionGroup) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from None
        logger.debug("mcp server %s ended", attempt.settings.name, exc_info=error)
        return failure_of(error)
