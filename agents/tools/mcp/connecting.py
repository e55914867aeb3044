"""Making a connection: a transport, the package's session on it, and their orderly end.

``connected`` must be entered and left in one task, because the package's scopes
belong to a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import anyio
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp import ClientSession, MCPError
from mcp.client import ClientRequestContext
from mcp.client._probe import negotiate_auto
from mcp.client.session import ListRootsFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from typing_extensions import override

from agents.tools.mcp import schemas
from agents.tools.mcp.attempt import McpAttempt
from agents.tools.mcp.bounded_http import client_for
from agents.tools.mcp.connection import McpConnection
from agents.tools.mcp.contract import McpFailed
from agents.tools.mcp.limits import MAX_MESSAGE_BYTES
from agents.tools.mcp.stdio import resolve_command, started

_SILENT = ("mcp", "client")  # the package's own names for its loggers
_WARNING = ("httpx2", "httpcore2")


def silence() -> None:
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    for name in _WARNING:
        logging.getLogger(name).setLevel(logging.WARNING)
    root = logging.getLogger()
    if _is_ours not in root.filters:
        root.addFilter(_is_ours)  # of what is logged to the root itself, not to loggers below


def _is_ours(record: logging.LogRecord) -> bool:
    return "/mcp/shared/" not in record.pathname


class McpSession(ClientSession):
    """``probe_seconds``: to answer what is asked first; ``None``: what the package gives."""

    probe_seconds: float | None = None

    @override
    async def send_discover(self, version: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self.probe_seconds):
                return await super().send_discover(version)
        except TimeoutError:
            raise MCPError(
                types.REQUEST_TIMEOUT, "The server did not answer server/discover."
            ) from None

    @override
    def _absorb_tool_listing(
        self, result: types.ListToolsResult, *, complete: bool
    ) -> types.ListToolsResult:
        for tool in result.tools:
            tool.output_schema = None  # kept for a check that is never made
        return super()._absorb_tool_listing(result, complete=complete)


async def negotiate(session: McpSession, attempt: McpAttempt) -> None:
    """Raises what the package raises."""
    if attempt.settings.kind == "sse" or attempt.handshake_only:
        # SSE is a transport of the handshake's era.
        _ = await session.initialize()
        return
    if attempt.settings.kind == "stdio":  # over HTTP a login may come first
        session.probe_seconds = attempt.patience.probe_seconds
    attempt.is_probing = True
    await negotiate_auto(session)
    attempt.is_probing = False


CLIENT = types.Implementation(name="crush", version="1.0")

# Of messages: one to read and one to write. The package names their types privately.
Streams: TypeAlias = tuple[Any, Any]

silence()
schemas.prepare()


@asynccontextmanager
async def connected(attempt: McpAttempt) -> AsyncIterator[McpConnection]:
    """Raises ``McpFailed``, or a group of exceptions for ``failure_of``."""
    connection = McpConnection(attempt)
    async with _transport(attempt) as (read, write):
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        with to_session, from_server:
            async with anyio.create_task_group() as tasks:
                try:
                    # Between the two, because the package's session does not tell of its end.
                    _ = tasks.start_soon(_relay, read, to_session, connection)
                    async with McpSession(
                        from_server,
                        write,
                        list_roots_callback=_roots(attempt),
                        message_handler=connection.hear,
                        client_info=CLIENT,
                    ) as session:
                        await connection.begin(session, negotiate(session, attempt))
                        yield connection
                finally:
                    await connection.drop()
                    tasks.cancel_scope.cancel()


async def _relay(
    source: Any,
    sink: MemoryObjectSendStream[SessionMessage | Exception],
    heard: McpConnection,
) -> None:
    try:
        async with source:
            with sink, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for message in source:
                    if isinstance(message, McpFailed):  # ours: it belongs to nobody's request
                        raise message
                    heard.complete(message)
                    await sink.send(message)
    finally:
        heard.end()


@asynccontextmanager
async def _transport(attempt: McpAttempt) -> AsyncIterator[Streams]:
    settings = attempt.settings
    if settings.kind == "stdio":
        command = await asyncio.to_thread(
            resolve_command, settings.command, settings.args, cwd=attempt.cwd, env=attempt.env
        )
        async with started(command, attempt.patience) as (read, write, child):
            attempt.child = child
            yield read, write
        return
    login = attempt.login

    def client(
        headers: dict[str, str] | None = None,  # noqa: ARG001  the package's own: we know better
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
            client() as lent,
            streamable_http_client(
                settings.url, http_client=lent, max_sse_event_size=MAX_MESSAGE_BYTES
            ) as streams,
        ):
            yield streams


def _roots(attempt: McpAttempt) -> ListRootsFnT | None:
    """A server on this machine may know where it works; a distant one need not."""
    if attempt.settings.kind != "stdio":
        return None
    root = types.Root(uri=attempt.cwd.as_uri(), name=attempt.cwd.name)  # type: ignore[arg-type]  # parsed

    async def roots(
        context: ClientRequestContext,  # noqa: ARG001  the package calls with it
    ) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[root])

    return roots
