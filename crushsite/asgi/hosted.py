"""The server behind a stock ASGI server, such as Uvicorn or Daphne's own command.

The server's own process (hub, worker, claims) starts with the ASGI server's lifespan, or with the
first connection if the server does not support lifespan, like Daphne. ``docs/operations.md`` lists
what such servers lack. Only one process may run: the data folder's lock refuses a second one.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import CommandError

from agents.jobs.host import job_host
from crushsite.asgi.guard import Receive, Scope, Send
from crushsite.asgi.routing import Router
from crushsite.exposure import ensure_local_token, is_local
from crushsite.logs import set_up_logging
from crushsite.process import ServerProcess, set_process
from crushsite.registration import ProcessShape
from crushsite.runtime import return_large_blocks, shorten_turns_of_threads
from crushsite.storage import (
    ensure_data_dir,
    ensure_migrated,
    explained_start,
    remove_server_file,
    require_migrated,
    require_scaled_settings,
    sole_server,
    write_server_file,
)
from workspaces.error_answers import http_error

logger = logging.getLogger(__name__)

NOT_LOCAL = (
    "This server listens on an address that other machines can reach, and a stock server does not"
    " report whether the connection is encrypted: bind it to 127.0.0.1, behind a proxy."
)


class HostedServer:
    """The application, and the server process behind it, in one event loop."""

    def __init__(self) -> None:
        self._starting: asyncio.Task[Router] | None = None
        self._held = ExitStack()  # the folder's lock
        self._router: Router | None = None
        self._process: ServerProcess | None = None
        self._folder: Path | None = None
        self._is_named = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if not _is_local(scope):
            await _refuse(scope, receive, send, status=403, sentence=NOT_LOCAL)
            return
        try:
            router = await self._started()
        except CommandError as error:
            await _refuse(scope, receive, send, status=503, sentence=str(error))
            return
        self._name(scope)
        await router(scope, receive, send)

    # -- start and stop with the ASGI server

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._started()
        except CommandError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _started(self) -> Router:
        if self._starting is None or _has_failed(self._starting):
            self._starting = asyncio.create_task(self._start(), name="start")
        return await asyncio.shield(self._starting)

    async def _start(self) -> Router:
        set_up_logging(settings.CRUSH_LOG_LEVEL, form=settings.CRUSH_LOG_FORMAT)
        return_large_blocks()
        shorten_turns_of_threads()
        try:
            self._folder = await asyncio.to_thread(self._prepare)
            is_alone = not settings.REDIS_URL
            process = ServerProcess(ProcessShape(works=is_alone, serves=True, is_alone=is_alone))
            set_process(process)
            router = Router(process)
            with explained_start():
                await process.start()
        except BaseException as error:
            set_process(None)
            self._held.close()
            if isinstance(error, CommandError):
                logger.error("the server cannot start: %s", error)  # noqa: TRY400  a sentence for people
            raise
        self._process, self._router = process, router
        _stop_with_twisted(self.stop)
        return router

    def _prepare(self) -> Path:
        folder = ensure_data_dir()
        if settings.REDIS_URL:
            require_scaled_settings()
            require_migrated()
        else:
            self._held.enter_context(sole_server(folder))
            ensure_migrated()
        ensure_local_token(folder)
        return folder

    def _name(self, scope: Scope) -> None:
        """Writes the file by which commands find this server, once its address is known."""
        if self._is_named or self._folder is None or scope["type"] != "http":
            return
        self._is_named = True
        host, port = scope.get("server") or ("", None)
        if host and port is not None:
            name = f"[{host}]" if ":" in host else host
            write_server_file(self._folder, f"http://{name}:{port}")

    async def stop(self) -> None:
        """Hands over runs and stops what belongs to the process. May be called twice."""
        process, self._process = self._process, None
        if process is None or self._router is None or self._folder is None:
            return
        process.is_stopping = True
        await job_host().stop_users_commands()  # requests wait for them
        await self._router.finish()
        await process.attachments.stop()
        await process.stop()
        set_process(None)
        remove_server_file(self._folder)
        self._held.close()


def _has_failed(task: asyncio.Task[Any]) -> bool:
    """Whether the start failed; the next connection retries it, as the cause may be gone."""
    return task.done() and (task.cancelled() or task.exception() is not None)


def _is_local(scope: Scope) -> bool:
    """Whether the connection came in by a loopback address or a socket file."""
    host, port = scope.get("server") or (None, None)
    return not isinstance(host, str) or port is None or is_local(host)


def _stop_with_twisted(stop: Callable[[], Awaitable[None]]) -> None:
    """Registers ``stop`` with the reactor, because Daphne does not notify its application."""
    if "daphne.server" not in sys.modules:
        return
    from twisted.internet import defer, reactor  # noqa: PLC0415  only where it runs already

    loop = asyncio.get_running_loop()
    running: Any = reactor

    def stopped() -> defer.Deferred[None]:
        return defer.Deferred.fromFuture(asyncio.ensure_future(stop(), loop=loop))

    running.addSystemEventTrigger("before", "shutdown", stopped)


async def _refuse(
    scope: Scope, receive: Receive, send: Send, *, status: int, sentence: str
) -> None:
    if scope["type"] == "websocket":
        await receive()  # the handshake; closing instead of accepting sends a 403
        await send({"type": "websocket.close", "code": 1008 if status == 403 else 1013})
        return
    for message in http_error(status, sentence):
        await send(message)
