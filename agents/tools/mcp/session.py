"""One life of a connection: begun, attended to, and why it ended, whatever happened."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import httpx2
from mcp import MCPError
from mcp.client.auth import OAuthFlowError
from pydantic import ValidationError

from agents.tools.mcp.attempt import McpAttempt
from agents.tools.mcp.connecting import connected
from agents.tools.mcp.connection import McpConnection
from agents.tools.mcp.contract import McpConnectionLost, McpFailed, NeedsLogin, Offer
from agents.tools.mcp.login import Login


def failure_of(error: BaseException) -> McpFailed:
    """The one that explains most, as a sentence of ours."""
    found = list(_flat(error))
    for kind in (NeedsLogin, McpFailed):
        for each in found:
            if isinstance(each, kind):
                return each
    for each in found:
        failure = _known(each)
        if failure is not None:
            return failure
    kind_of = type(found[0]).__name__ if found else type(error).__name__
    return McpFailed(f"The connection failed: {kind_of}.")


def _flat(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _flat(each)
    else:
        yield error


def _known(error: BaseException) -> McpFailed | None:
    # Never the error's own text where it may hold the address.
    match error:
        case httpx2.HTTPStatusError():
            return McpConnectionLost(
                f"The server answered with status {error.response.status_code}."
            )
        case httpx2.TimeoutException():
            return McpConnectionLost("The server did not answer in time.")
        case httpx2.ConnectError():
            if isinstance(_root(error), ssl.SSLError):
                return McpConnectionLost("The server's certificate is not trusted.")
            return McpConnectionLost("The server cannot be reached: nobody answers at its address.")
        case httpx2.SSEError():
            return McpConnectionLost("The server sent an event that is too long, or is none.")
        case httpx2.HTTPError() | httpx2.InvalidURL() | httpx2.StreamError():
            return McpConnectionLost(f"The connection broke: {type(error).__name__}.")
        case OAuthFlowError():
            return McpFailed(f"The login failed: {error}")
        case MCPError():
            return McpFailed(f"The server answered: {error.error.message}")
        case RuntimeError() if "protocol version" in str(error):
            return McpFailed(
                "The server uses a version of the protocol that this server does not support."
            )
        case ValidationError():
            return McpFailed("The server's answer does not follow the protocol.")
        case OSError():
            return McpConnectionLost(
                f"The connection broke: {error.strerror or type(error).__name__}."
            )
        case _:
            return None


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return error


logger = logging.getLogger(__name__)

Attend = Callable[[McpConnection, Offer], Awaitable[McpFailed]]


async def live(attempt: McpAttempt, attend: Attend, *, more_seconds: float = 0.0) -> McpFailed:
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


__all__ = ["Login", "McpAttempt", "McpConnection", "live"]
