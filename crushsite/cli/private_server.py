"""The server of a prompt that works without one: a socket file for other commands of this user.

A second prompt finds it by the data folder's server file and uses it like any server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from agents.jobs.host import job_host
from crushsite.asgi.routing import Router, guarded
from crushsite.process import ServerProcess
from crushsite.serve import remove_server_file, write_server_file
from crushsite.server.plain_import import import_daphne_plain

if TYPE_CHECKING:
    from crushsite.server.asgi_server import AsgiServer

logger = logging.getLogger(__name__)

SOCKET = "prompt.sock"
LONGEST_PATH = 100  # what the kernel takes for a socket's address, and a few bytes less


class PrivateServer:
    """Serves from ``start`` to ``stop``, each called once."""

    def __init__(self, process: ServerProcess, folder: Path) -> None:
        self._folder = folder
        self._router = Router(process)
        self._server: AsgiServer | None = None
        self._other_folder = ""  # made for a socket where the data folder's path is too long
        self._starting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Returns at once: the first prompt does not wait for what only a second one needs."""
        self._starting = asyncio.create_task(self._start())

    async def stop(self) -> None:
        """Before the process stops."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
        remove_server_file(self._folder)
        if self._server is not None:
            await self._server.stop()
        await job_host().end_users_commands()  # requests wait for them
        await self._router.api.finish()
        if self._other_folder:
            shutil.rmtree(self._other_folder, ignore_errors=True)

    async def _start(self) -> None:
        try:
            self._server = await asyncio.to_thread(self._make)
            (endpoint,) = await self._server.start()
            write_server_file(self._folder, str(endpoint), is_temporary=True)
        except Exception:
            logger.exception("a second prompt must wait for this one: nothing listens for it")

    def _make(self) -> AsgiServer:
        import_daphne_plain()
        from crushsite.server.asgi_server import AsgiServer  # noqa: PLC0415  after Daphne's import

        return AsgiServer(
            guarded(self._router, unix=True),
            endpoints=[f"unix://{self._socket()}"],
            body_limit=settings.CRUSH_MAX_BODY_BYTES,
        )

    def _socket(self) -> Path:
        path = self._folder.resolve() / SOCKET
        if len(os.fsencode(path)) <= LONGEST_PATH:
            return path
        self._other_folder = tempfile.mkdtemp(prefix="crush-")  # for this user alone
        return Path(self._other_folder) / SOCKET
