"""What tools that touch files get from a workspace's language servers.

Nothing here raises but a cancel, and nothing waits longer than is stated: an
edit is done before this is asked, and must not wait for a server that hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path

from agents.tools.contract import ToolRefusal
from agents.tools.lsp.client import Client
from agents.tools.lsp.diagnostics import Severity
from agents.tools.lsp.peer import RequestFailed
from agents.tools.lsp.reports import Told, section
from agents.tools.lsp.server import LanguageServerProcess
from agents.tools.lsp.states import LanguageServerStatus
from agents.tools.lsp.workspace import WorkspaceServers

logger = logging.getLogger(__name__)

WAIT_SECONDS = 5.0  # in all, also for a server that is being started
IMPATIENT_SECONDS = 0.5  # for one that was late several times in a row
LATE_ANSWERS = 2
SETTLE_SECONDS = 0.25  # some tell first what the parser says, then what the checker says
FILE_LINES = 20
PROJECT_LINES = 10
_OTHERS_PULLED = 4
_CHANGED_HEARD = 10
_LOOK_SECONDS = 1.0


class WorkspaceLanguages:
    """The ``LanguageService`` of a workspace."""

    def __init__(
        self,
        servers: WorkspaceServers,
        *,
        wait_seconds: float = WAIT_SECONDS,
        impatient_seconds: float = IMPATIENT_SECONDS,
    ) -> None:
        self._servers = servers
        self._wait_seconds = wait_seconds
        self._impatient_seconds = impatient_seconds

    def touch(self, path: str) -> None:
        self._servers.in_background(self._touch(Path(path)))

    async def after_change(self, path: str) -> str:
        try:
            changed = Path(path)
            async with asyncio.timeout(self._wait_seconds):
                servers = await self._servers.for_file(changed)
        except TimeoutError:
            return ""
        except Exception:
            logger.exception("asking language servers failed")
            return ""
        if not servers:
            return ""
        await hear_of(
            servers,
            changed,
            seconds=self._wait_seconds,
            impatient_seconds=self._impatient_seconds,
        )
        return report(servers, [changed], self._servers.root)

    async def _touch(self, path: Path) -> None:
        for server in await self._servers.for_file(path):
            # Opened early, so that the first edit finds it looked at.
            client = await server.ready(seconds=server.plan.seconds)
            if client is not None:
                with contextlib.suppress(ToolRefusal):
                    await client.sync(path)


async def hear_of(
    servers: Sequence[LanguageServerProcess],
    path: Path,
    *,
    seconds: float,
    impatient_seconds: float = IMPATIENT_SECONDS,
) -> None:
    """Waits until each has said something of the file as it is now, or the time is over."""
    await asyncio.gather(*(_hear(server, path, seconds, impatient_seconds) for server in servers))


async def _hear(
    server: LanguageServerProcess, path: Path, seconds: float, impatient_seconds: float
) -> None:
    if server.late_answers >= LATE_ANSWERS:
        seconds = min(seconds, impatient_seconds)
    try:
        async with asyncio.timeout(seconds):
            client = await server.ready(seconds=seconds)
            if client is None:
                server.late_answers += server.state is LanguageServerStatus.STARTING
                return
            await _hear_client(client, path, seconds)
            server.late_answers = 0
    except TimeoutError:
        server.late_answers += 1
    except (RequestFailed, ToolRefusal):
        pass  # it says nothing of this file
    except Exception:
        logger.exception("asking a language server failed")


async def _hear_client(client: Client, path: Path, seconds: float) -> None:
    store, name = client.diagnostics, str(path)
    times = store.times(name)
    synced = await client.sync(path)
    if client.pulls:
        await client.pull(path, seconds=seconds)
        others = [Path(other) for other in client.documents.paths()[:-1] if other != name]
        # Those that were looked at last are the likeliest to have been broken by this.
        pulls = (client.pull(other, seconds=seconds) for other in others[-_OTHERS_PULLED:])
        await asyncio.gather(*pulls, return_exceptions=True)
        return
    if not synced.has_changed and times:
        return
    await store.wait_newer(name, times=times, version=synced.version)
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(SETTLE_SECONDS):
                await store.wait_any(name)


async def report_changes(servers: WorkspaceServers, paths: Sequence[Path]) -> str:
    """As ``after_change``, for the several files of one change."""
    heard: dict[str, LanguageServerProcess] = {}

    async def hear(path: Path) -> None:
        try:
            handling = await servers.for_file(path)
        except Exception:
            logger.exception("asking language servers failed")
            return
        heard.update({server.plan.name: server for server in handling})
        await hear_of(handling, path, seconds=WAIT_SECONDS)

    await asyncio.gather(*(hear(path) for path in paths[:_CHANGED_HEARD]))
    return report(tuple(heard.values()), paths, servers.root)


async def look_again(servers: Sequence[LanguageServerProcess], *, seconds: float) -> None:
    """Has all open files looked at as they are now; within the time, as far as that goes."""

    async def look(client: Client) -> None:
        has_changed = await client.documents.sync_open()
        if client.pulls:
            opened = [Path(name) for name in client.documents.paths()]
            pulls = (client.pull(path, seconds=seconds) for path in opened)
            await asyncio.gather(*pulls, return_exceptions=True)
        elif has_changed:
            await asyncio.sleep(_LOOK_SECONDS)

    clients = [server.client for server in servers if server.client is not None]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(look(client) for client in clients), return_exceptions=True)


def report(servers: Sequence[LanguageServerProcess], paths: Sequence[Path], root: Path) -> str:
    """What matters after a change: errors and warnings there, and errors elsewhere."""
    changed = {str(path) for path in paths}
    here: list[Told] = []
    elsewhere: list[Told] = []
    for server in servers:
        found = server.client.diagnostics.all() if server.client is not None else {}
        for name, several in found.items():
            most = Severity.WARNING if name in changed else Severity.ERROR
            place = shown_path(name, root)
            told = [Told(place, server.plan.name, d) for d in several if d.severity <= most]
            (here if name in changed else elsewhere).extend(told)
    parts = [
        section("file_diagnostics", here, most=FILE_LINES),
        section("project_diagnostics", elsewhere, most=PROJECT_LINES),
    ]
    return "\n".join(part for part in parts if part)


def shown_path(name: str, root: Path) -> str:
    path = Path(name)
    return str(path.relative_to(root)) if path.is_relative_to(root) else name
