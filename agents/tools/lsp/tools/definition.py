"""Finds where a symbol is defined."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools.contract import (
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    load_description,
)
from agents.tools.files.paths import shown
from agents.tools.lsp import symbol_search
from agents.tools.lsp.reports import QuotedFiles
from agents.tools.lsp.responses import CodeLocation
from agents.tools.lsp.symbol_search import Candidate, SymbolArgs, first_answer
from agents.tools.lsp.workspace import WorkspaceServers

_SHOWN = 20
_LINES_AROUND = 5


class Definition:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="lsp_definition",
        description=load_description(__file__),
        schema=symbol_search.SCHEMA,
    )
    parse = staticmethod(symbol_search.parse)

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    async def required_permission(
        self, _args: SymbolArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None  # it only reads

    async def run(self, args: SymbolArgs, context: ToolContext) -> ToolOutcome:
        found = await first_answer(
            _request,
            args,
            context,
            self._servers,
            provider="definitionProvider",
            method="textDocument/definition",
        )
        if found is None:
            return ToolOutcome(f"No definition of {args.symbol} was found.")
        return await asyncio.to_thread(_outcome, found, context)


async def _request(at: Candidate) -> Sequence[CodeLocation] | None:
    return await at.client.definition(at.path, at.position) or None


def _outcome(found: Sequence[CodeLocation], context: ToolContext) -> ToolOutcome:
    quotes = QuotedFiles(context)
    blocks: list[str] = []
    metadata: dict[str, Any] = {}
    for place in found[:_SHOWN]:
        number = place.span.start.line
        first, lines = quotes.around(place.path, number, lines=_LINES_AROUND)
        if not metadata:
            metadata = {
                "file_path": str(place.path),
                "line": number + 1,
                "content": "\n".join(lines),
            }
        numbered = [f"{n:>6}|{line}" for n, line in enumerate(lines, start=first + 1)]
        blocks.append("\n".join([f"{shown(place.path, context)}:{number + 1}", *numbered]))
    count = len(found)
    head = f"Found {count} {'definition' if count == 1 else 'definitions'}"
    return ToolOutcome("\n\n".join([head, *blocks]), metadata=metadata)
