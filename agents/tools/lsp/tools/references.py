"""Finds every use of a symbol, as the language server understands it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agents.llm.contract import ToolSpec
from agents.tools.contract import (
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    load_description,
)
from agents.tools.lsp import symbol_search
from agents.tools.lsp.reports import locations_by_file
from agents.tools.lsp.responses import CodeLocation
from agents.tools.lsp.symbol_search import Candidate, SymbolArgs, first_answer
from agents.tools.lsp.workspace import WorkspaceServers

_SHOWN = 200


class References:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="lsp_references",
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
            provider="referencesProvider",
            method="textDocument/references",
        )
        if found is None:
            return ToolOutcome(f"No references to {args.symbol} were found.")
        files = len({place.path for place in found})
        listing = await asyncio.to_thread(locations_by_file, found, context, most=_SHOWN)
        return ToolOutcome(
            f"Found {len(found)} {'reference' if len(found) == 1 else 'references'}"
            f" in {files} {'file' if files == 1 else 'files'}\n\n{listing}"
        )


async def _request(at: Candidate) -> Sequence[CodeLocation] | None:
    return await at.client.references(at.path, at.position) or None
