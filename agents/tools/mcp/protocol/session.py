"""Runs one connection from its start to its end, and determines why it ended.

Opens a transport and the package's session on it, and closes both in order. The same task must
enter and leave ``connected``, because the package's cancel scopes belong to a task.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeAlias

import anyio
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp import ClientSession, MCPError
from mcp.client import ClientRequestContext
from mcp.client.auth import OAuthFlowError
from mcp.client.session import ListRootsFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from agents.tools.mcp import schemas
from agents.tools.mcp.contract import McpConnectionLost, McpFailed, NeedsLogin, Offer
from agents.tools.mcp.limits import MAX_MESSAGE_BYTES
from agents.tools.mcp.protocol.attempt import McpAttempt
from agents.tools.mcp.protocol.bounded_http import client_for
from agents.tools.mcp.protocol.connection import McpConnection
from agents.tools.mcp.protocol.lists import whole_offer
from agents.tools.mcp.protocol.stdio import resolve_command, started

logger = logging.getLogger(__name__)

CLIENT = types.Implementation(name="crush", version="1.0")
_SILENT = ("mcp", "client")  # the package's own names for its loggers
_WARNING = ("httpx2", "httpcore2")

UseConnection = Callable[[McpConnection, Offer], Awaitable[McpFailed]]
# Message streams to read and to write. Their types are private in the package.
Streams: TypeAlias = tuple[Any, Any]


async def run_connection(
    attempt: McpAttempt, use: UseConnection, *, more_seconds: float = 0.0
) -> McpFailed:
    """Opens a connection and passes it to ``use``, which returns or raises at its end.

    Returns why it ended; raises only a cancel. ``more_seconds`` gives a person time to log in.
    """
    seconds = attempt.settings.timeout_seconds
    try:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(seconds + more_seconds):
                    connection = await stack.enter_async_context(connected(attempt))
                    offer = await whole_offer(connection, seconds=seconds)
            except TimeoutError:
                raise McpFailed(
                    f"The server did not start within {seconds:g} seconds. {attempt.stderr()}"
                ) from None
            raise await use(connection, offer)
    except (Exception, BaseExceptionGroup) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from None
        logger.debug("mcp server %s ended", attempt.settings.name, exc_info=error)
        return failure_of(error)


@asynccontextmanager
async def connected(attempt: McpAttempt) -> AsyncIterator[McpConnection]:
    """Opens a connection. Raises ``McpFailed``, or an exception group for ``failure_of``."""
    connection = McpConnection(attempt)
    async with _transport(attempt) as (read, write):
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        with to_session, from_server:
            async with anyio.create_task_group() as tasks:
                try:
                    # Relay between the two, because the package's session does not report its end.
                    _ = tasks.start_soon(_relay, read, to_session, connection)
                    async with ClientSession(
                        from_server,
                        write,
                        list_roots_callback=_roots(attempt),
                        message_handler=connection.handle_message,
                        client_info=CLIENT,
                    ) as session:
                        await connection.begin(session, negotiate(session, attempt))
                        yield connection
                finally:
                    await connection.drop()
                    tasks.cancel_scope.cancel()


async def negotiate(session: ClientSession, attempt: McpAttempt) -> None:
    """Negotiates the protocol version. Raises what the package raises."""
    # SSE belongs to the protocol versions that use the handshake.
    if attempt.settings.kind != "sse" and not attempt.handshake_only:
        # Only for commands: over HTTP a login may come first.
        is_command = attempt.settings.kind == "stdio"
        attempt.is_probing = True
        try:
            async with asyncio.timeout(attempt.timeouts.probe_seconds if is_command else None):
                _ = await session.discover()
        except MCPError as error:
            if _is_too_new(error):
                raise
        except (TimeoutError, ValidationError, RuntimeError):
            pass  # no answer, or one that names no version of this protocol
        else:
            attempt.is_probing = False
            return
    try:
        _ = await session.initialize()
    except MCPError as error:
        if not attempt.is_probing or error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        # The server answered the first request too late, and no longer accepts the handshake.
        _ = await session.discover()
    attempt.is_probing = False


def _is_too_new(error: MCPError) -> bool:
    """Whether the server names its versions, and none of them uses the handshake."""
    if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
        return False
    try:
        data = types.UnsupportedProtocolVersionErrorData.model_validate(error.error.data)
    except ValidationError:
        return False
    return not set(data.supported) & set(HANDSHAKE_PROTOCOL_VERSIONS)


async def _relay(
    source: Any,
    sink: MemoryObjectSendStream[SessionMessage | Exception],
    connection: McpConnection,
) -> None:
    try:
        async with source:
            with sink, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for message in source:
                    if isinstance(message, McpFailed):  # from the transport, not for a request
                        raise message
                    connection.complete(message)
                    await sink.send(message)
    finally:
        connection.end()


@asynccontextmanager
async def _transport(attempt: McpAttempt) -> AsyncIterator[Streams]:
    settings = attempt.settings
    if settings.kind == "stdio":
        command = await asyncio.to_thread(
            resolve_command, settings.command, settings.args, cwd=attempt.cwd, env=attempt.env
        )
        async with started(command, attempt.timeouts) as (read, write, child):
            attempt.child = child
            yield read, write
        return
    login = attempt.login

    def client(
        headers: dict[str, str] | None = None,  # noqa: ARG001  the package's value is not used
        timeout: httpx2.Timeout | None = None,  # noqa: ARG001  the same
        auth: httpx2.Auth | None = None,  # noqa: ARG001  the same
    ) -> httpx2.AsyncClient:
        return client_for(
            attempt, auth=login.auth(renew=attempt.renew) if login is not None else None
        )

    if settings.kind == "sse":
        async with sse_client(settings.url, httpx_client_factory=client) as streams:
            yield streams
    else:
        async with (
            client() as http_client,
            streamable_http_client(
                settings.url, http_client=http_client, max_sse_event_size=MAX_MESSAGE_BYTES
            ) as streams,
        ):
            yield streams


def _roots(attempt: McpAttempt) -> ListRootsFnT | None:
    """Returns a callback with the workspace's folder, for local servers only."""
    if attempt.settings.kind != "stdio":
        return None
    root = types.Root(uri=attempt.cwd.as_uri(), name=attempt.cwd.name)  # type: ignore[arg-type]  # parsed

    async def roots(
        context: ClientRequestContext,  # noqa: ARG001  the package calls with it
    ) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[root])

    return roots


def failure_of(error: BaseException) -> McpFailed:
    """Returns the most informative failure, with a message of this project."""
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
    # Do not use an error's own text that may contain the URL.
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
            return McpConnectionLost(
                "The server cannot be reached: nothing answers at its address."
            )
        case httpx2.SSEError():
            return McpConnectionLost("The server sent an event that is malformed or too long.")
        case httpx2.HTTPError() | httpx2.InvalidURL() | httpx2.StreamError():
            return McpConnectionLost(f"The connection was lost: {type(error).__name__}.")
        case OAuthFlowError():
            return McpFailed(f"The login failed: {error}")
        case MCPError():
            return McpFailed(f"The server returned an error: {error.error.message}")
        case RuntimeError() if "protocol version" in str(error):
            return McpFailed(
                "The server uses a version of the protocol that this server does not support."
            )
        case ValidationError():
            return McpFailed("The server's answer does not follow the protocol.")
        case OSError():
            return McpConnectionLost(
                f"The connection was lost: {error.strerror or type(error).__name__}."
            )
        case _:
            return None


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return error


def configure_logging() -> None:
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    for name in _WARNING:
        logging.getLogger(name).setLevel(logging.WARNING)
    root = logging.getLogger()
    if _is_ours not in root.filters:
        root.addFilter(_is_ours)  # it filters only the root logger's own records


def _is_ours(record: logging.LogRecord) -> bool:
    return "/mcp/shared/" not in record.pathname


configure_logging()
schemas.prepare()
