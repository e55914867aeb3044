"""Reports the diagnostics of language servers for one file, or for all files they analysed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import (
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.limits import MAX_PATH_BYTES
from agents.tools.lsp.diagnostics import Severity
from agents.tools.lsp.reports import ReportedDiagnostic, diagnostics_section, diagnostics_summary
from agents.tools.lsp.server import LanguageServerProcess
from agents.tools.lsp.service import look_again, shown_path, wait_for_reports
from agents.tools.lsp.symbol_search import START_SECONDS, inner_path
from agents.tools.lsp.workspace import WorkspaceServers

_WAIT_SECONDS = 10.0
_FILE_LINES = 50
_PROJECT_LINES = 30


@dataclass(frozen=True, slots=True)
class DiagnosticsArgs:
    file_path: str


class Diagnostics:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="lsp_diagnostics",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "file_path": {
                    "type": "string",
                    "description": "The file to check (default: all files viewed so far).",
                }
            },
        },
    )

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    def parse(self, given: Mapping[str, Any]) -> DiagnosticsArgs:
        return DiagnosticsArgs(
            arguments.text(given, "file_path", default="", max_bytes=MAX_PATH_BYTES)
        )

    async def required_permission(
        self, _args: DiagnosticsArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None  # it only reads

    async def run(self, args: DiagnosticsArgs, context: ToolContext) -> ToolOutcome:
        if not args.file_path.strip():
            return await self._everywhere()
        path = await inner_path(args.file_path, context)
        if not await asyncio.to_thread(path.is_file):
            raise ToolRefusal(f"{path} is not a file.")
        servers = await self._servers.for_file(path)
        if not servers:
            raise ToolRefusal(f"No language server handles {path.name}.")
        await asyncio.gather(
            *(s.ready(seconds=min(s.plan.seconds, START_SECONDS)) for s in servers)
        )
        await wait_for_reports(servers, path, seconds=_WAIT_SECONDS)
        ready = _ready(servers)
        here = [t for t in _reported(ready, self._servers.root) if t[0] == str(path)]
        name = shown_path(str(path), self._servers.root)
        parts = [
            diagnostics_section("file_diagnostics", [t for _, t in here], most=_FILE_LINES),
            diagnostics_summary(name, [t for _, t in here]),
        ]
        return ToolOutcome("\n".join(part for part in parts if part))

    async def _everywhere(self) -> ToolOutcome:
        servers = [s for s in self._servers.servers() if s.is_running]
        if not servers:
            raise ToolRefusal(
                "No language server is running yet. Pass a file_path to start the one for that file."
            )
        await asyncio.gather(
            *(s.ready(seconds=min(s.plan.seconds, START_SECONDS)) for s in servers)
        )
        ready = _ready(servers)
        await look_again(ready, seconds=_WAIT_SECONDS)
        reported = [t for _, t in _reported(ready, self._servers.root)]
        shown = [t for t in reported if t.diagnostic.severity is not Severity.HINT]
        parts = [
            diagnostics_section("project_diagnostics", shown, most=_PROJECT_LINES),
            diagnostics_summary("Project", reported),
        ]
        return ToolOutcome("\n".join(part for part in parts if part))


def _ready(servers: Sequence[LanguageServerProcess]) -> list[LanguageServerProcess]:
    """Returns the servers that are ready. Raises ``ToolRefusal`` if there are none."""
    ready = [server for server in servers if server.client is not None]
    if not ready:
        server = servers[0]
        error = server.error or "It is still starting; try again in a moment."
        raise ToolRefusal(f"The language server {server.plan.name} is not ready. {error}")
    return ready


def _reported(
    servers: Sequence[LanguageServerProcess], root: Path
) -> list[tuple[str, ReportedDiagnostic]]:
    """Returns each diagnostic with the path of its file."""
    return [
        (name, ReportedDiagnostic(shown_path(name, root), server.plan.name, diagnostic))
        for server in servers
        if server.client is not None
        for name, several in server.client.diagnostics.all().items()
        for diagnostic in several
    ]
