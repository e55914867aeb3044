"""Diagnostics of a workspace's language servers for the tools that touch files.

These functions raise only a cancel and have fixed timeouts: the edit is already done,
and its result must not wait for a server that hangs.
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
from agents.tools.lsp.reports import ReportedDiagnostic, diagnostics_section
from agents.tools.lsp.server import LanguageServerProcess
from agents.tools.lsp.states import LanguageServerStatus
from agents.tools.lsp.workspace import WorkspaceServers

logger = logging.getLogger(__name__)

WAIT_SECONDS = 5.0  # in total, including the start of a server
SHORT_WAIT_SECONDS = 0.5  # for a server with several consecutive timeouts
LATE_ANSWERS = 2
SETTLE_SECONDS = 0.25  # some servers report the parser's errors first, then the checker's
FILE_LINES = 20
PROJECT_LINES = 10
_OTHERS_PULLED = 4
_MOST_CHANGED = 10
_POLL_SECONDS = 1.0


class WorkspaceLanguages:
    """The ``LanguageService`` of a workspace."""

    def __init__(
        self,
        servers: WorkspaceServers,
        *,
        wait_seconds: float = WAIT_SECONDS,
        short_wait_seconds: float = SHORT_WAIT_SECONDS,
    ) -> None:
        self._servers = servers
        self._wait_seconds = wait_seconds
        self._short_wait_seconds = short_wait_seconds

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
            logger.exception("language servers could not report diagnostics")
            return ""
        if not servers:
            return ""
        await wait_for_reports(
            servers,
            changed,
            seconds=self._wait_seconds,
            short_wait_seconds=self._short_wait_seconds,
        )
        return report(servers, [changed], self._servers.root)

    async def _touch(self, path: Path) -> None:
        for server in await self._servers.for_file(path):
            # Open the file early, so that the server has analysed it before the first edit.
            client = await server.ready(seconds=server.plan.seconds)
            if client is not None:
                with contextlib.suppress(ToolRefusal):
                    await client.sync(path)


async def wait_for_reports(
    servers: Sequence[LanguageServerProcess],
    path: Path,
    *,
    seconds: float,
    short_wait_seconds: float = SHORT_WAIT_SECONDS,
) -> None:
    """Waits until each server has reported on the file's current text, or for the timeout."""
    await asyncio.gather(
        *(_wait_for_server(server, path, seconds, short_wait_seconds) for server in servers)
    )


async def _wait_for_server(
    server: LanguageServerProcess, path: Path, seconds: float, short_wait_seconds: float
) -> None:
    if server.late_answers >= LATE_ANSWERS:
        seconds = min(seconds, short_wait_seconds)
    try:
        async with asyncio.timeout(seconds):
            client = await server.ready(seconds=seconds)
            if client is None:
                server.late_answers += server.state is LanguageServerStatus.STARTING
                return
            await _wait_for_client(client, path, seconds)
            server.late_answers = 0
    except TimeoutError:
        server.late_answers += 1
    except (RequestFailed, ToolRefusal):
        pass  # the server has no diagnostics for this file
    except Exception:
        logger.exception("a language server could not report diagnostics")


async def _wait_for_client(client: Client, path: Path, seconds: float) -> None:
    store, name = client.diagnostics, str(path)
    times = store.times(name)
    synced = await client.sync(path)
    if client.pulls:
        await client.pull(path, seconds=seconds)
        others = [Path(other) for other in client.documents.paths()[:-1] if other != name]
        # The change most probably broke the files that were opened last.
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
    """Does the work of ``after_change`` for several files of one change."""
    involved: dict[str, LanguageServerProcess] = {}

    async def wait_for(path: Path) -> None:
        try:
            handling = await servers.for_file(path)
        except Exception:
            logger.exception("language servers could not report diagnostics")
            return
        involved.update({server.plan.name: server for server in handling})
        await wait_for_reports(handling, path, seconds=WAIT_SECONDS)

    await asyncio.gather(*(wait_for(path) for path in paths[:_MOST_CHANGED]))
    return report(tuple(involved.values()), paths, servers.root)


async def look_again(servers: Sequence[LanguageServerProcess], *, seconds: float) -> None:
    """Has the servers analyse the current text of all open files, as far as the time allows."""

    async def look(client: Client) -> None:
        has_changed = await client.documents.sync_open()
        if client.pulls:
            opened = [Path(name) for name in client.documents.paths()]
            pulls = (client.pull(path, seconds=seconds) for path in opened)
            await asyncio.gather(*pulls, return_exceptions=True)
        elif has_changed:
            await asyncio.sleep(_POLL_SECONDS)

    clients = [server.client for server in servers if server.client is not None]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(look(client) for client in clients), return_exceptions=True)


def report(servers: Sequence[LanguageServerProcess], paths: Sequence[Path], root: Path) -> str:
    """Returns errors and warnings of the changed files, and errors of other files."""
    changed = {str(path) for path in paths}
    here: list[ReportedDiagnostic] = []
    elsewhere: list[ReportedDiagnostic] = []
    for server in servers:
        found = server.client.diagnostics.all() if server.client is not None else {}
        for name, several in found.items():
            most = Severity.WARNING if name in changed else Severity.ERROR
            place = shown_path(name, root)
            reported = [
                ReportedDiagnostic(place, server.plan.name, d)
                for d in several
                if d.severity <= most
            ]
            (here if name in changed else elsewhere).extend(reported)
    parts = [
        diagnostics_section("file_diagnostics", here, most=FILE_LINES),
        diagnostics_section("project_diagnostics", elsewhere, most=PROJECT_LINES),
    ]
    return "\n".join(part for part in parts if part)


def shown_path(name: str, root: Path) -> str:
    path = Path(name)
    return str(path.relative_to(root)) if path.is_relative_to(root) else name
