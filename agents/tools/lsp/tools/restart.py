"""Restarts language servers: one by name, or all that this workspace has started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from agents.tools.lsp.states import LanguageServerStatus
from agents.tools.lsp.symbol_search import START_SECONDS
from agents.tools.lsp.workspace import WorkspaceServers


@dataclass(frozen=True, slots=True)
class RestartArgs:
    name: str


class Restart:
    repetition = Repetition.IDEMPOTENT
    spec = ToolSpec(
        name="lsp_restart",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "description": "The language server's name (default: all that were started).",
                }
            },
        },
    )

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    def parse(self, given: Mapping[str, Any]) -> RestartArgs:
        return RestartArgs(arguments.text(given, "name", default="", max_bytes=500).strip())

    async def required_permission(
        self, _args: RestartArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None  # it starts only servers that run already or were meant to run

    async def run(self, args: RestartArgs, _context: ToolContext) -> ToolOutcome:
        known = {server.plan.name: server for server in self._servers.servers()}
        if args.name:
            if args.name not in known:
                names = ", ".join(known) or "none"
                raise ToolRefusal(
                    f"There is no language server {args.name!r:.100}; there are: {names}."
                )
            chosen = [known[args.name]]
        else:
            idle = (LanguageServerStatus.UNSTARTED, LanguageServerStatus.DISABLED)
            chosen = [server for server in known.values() if server.state not in idle]
        if not chosen:
            raise ToolRefusal("No language server has been started yet.")
        ready = await self._servers.restart(chosen, seconds=START_SECONDS)
        failed = [server for server in chosen if server.plan.name not in ready]
        lines = [f"Restarted {', '.join(ready)}."] if ready else []
        for server in failed:
            error = server.error or "It is still starting, or is disabled."
            lines.append(f"{server.plan.name} could not be restarted. {error}")
        return ToolOutcome("\n".join(lines), is_error=not ready)
