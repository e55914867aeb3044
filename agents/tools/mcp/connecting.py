"""Making a connection: a transport, the package's session on it, and their orderly end.

``connected`` must be entered and left in one task, because the package's scopes
belong to a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import ClientSession, types
from mcp.client.session import ListRootsFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.context import RequestContext
from mcp.shared.message import SessionMessage

from agents.tools.mcp import quiet, schemas
from agents.tools.mcp.attempt import Attempt
from agents.tools.mcp.bounded_http import client_for
from agents.tools.mcp.connection import Connection
from agents.tools.mcp.contract import McpFailed
from agents.tools.mcp.stdio import resolve_command, started

CLIENT = types.Implementation(name="crush", version="1.0")

quiet.silence()
schemas.prepare()

_Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
_Outgoing = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def connected(attempt: Attempt) -> AsyncIterator[Connection]:
    """Raises ``McpFailed``, or a group of exceptions for ``failure_of``."""
    connection = Connection(attempt)
    async with _transport(attempt) as (read, write):
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        with read, to_session, from_server:
            async with anyio.create_task_group() as tasks:
                try:
                    # Between the two, because the package's session does not tell of its end.
                    _ = tasks.start_soon(_relay, read, to_session, connection)
                    async with ClientSession(
                        from_server,
                        write,
                        list_roots_callback=_roots(attempt),
                        message_handler=connection.hear,
                        client_info=CLIENT,
                    ) as session:
                        await connection.begin(session)
                        yield connection
                finally:
                    await connection.drop()
                    tasks.cancel_scope.cancel()


async def _relay(
    source: _Incoming, sink: MemoryObjectSendStream[SessionMessage | Exception], heard: Connection
) -> None:
    try:
        with sink, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for message in source:
                if isinstance(message, McpFailed):  # ours: what it belongs to is never answered
                    raise message
                await sink.send(message)
    finally:
        heard.end()


@asynccontextmanager
async def _transport(attempt: Attempt) -> AsyncIterator[tuple[_Incoming, _Outgoing]]:
    settings = attempt.settings
    if settings.kind == "stdio":
        command = await asyncio.to_thread(
            resolve_command, settings.command, settings.args, cwd=attempt.cwd, env=attempt.env
        )
        async with started(command, leave_seconds=attempt.leave_seconds) as (read, write, child):
            attempt.child = child
            yield read, write
        return
    login = attempt.login

    def client(
        headers: dict[str, str] | None = None,  # noqa: ARG001  the package's own: we know better
        timeout: httpx.Timeout | None = None,  # noqa: ARG001  the same
        auth: httpx.Auth | None = None,  # noqa: ARG001  the same
    ) -> httpx.AsyncClient:
        return client_for(
            settings.url,
            headers=settings.headers,
            env=attempt.env,
            auth=login.auth(renew=attempt.renew) if login is not None else None,
            may_log_in=attempt.may_log_in,
        )

    if settings.kind == "sse":
        async with sse_client(settings.url, httpx_client_factory=client) as (read, write):
            yield read, write
    else:
        async with (
            client() as lent,
            streamable_http_client(settings.url, http_client=lent) as (read, write, _),
        ):
            yield read, write


def _roots(attempt: Attempt) -> ListRootsFnT | None:
    """A server on this machine may know where it works; a distant one need not."""
    if attempt.settings.kind != "stdio":
        return None
    root = types.Root(uri=attempt.cwd.as_uri(), name=attempt.cwd.name)  # type: ignore[arg-type]  # parsed

    async def roots(
        context: RequestContext[ClientSession, Any],  # noqa: ARG001  the package calls with it
    ) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[root])

    return roots
