"""Finds every use of a symbol, as the language server understands it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agents.llm.contract import ToolSpec
from agents.tools.contract import Question, ToolContext, ToolOutcome
from agents.tools.description import load_description
from agents.tools.lsp import locating
from agents.tools.lsp.answers import CodeLocation
from agents.tools.lsp.locating import Candidate, SymbolArgs, first_answer
from agents.tools.lsp.showing import by_file
from agents.tools.lsp.workspace import WorkspaceServers

_SHOWN = 200


class References:
    parallel = True
    spec = ToolSpec(
        name="lsp_references",
        description=load_description(__file__),
        schema=locating.SCHEMA,
    )
    parse = staticmethod(locating.parse)

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    async def question(self, _args: SymbolArgs, _context: ToolContext) -> Question | None:
        return None  # it only looks

    async def run(self, args: SymbolArgs, context: ToolContext) -> ToolOutcome:
        found = await first_answer(
            _ask,
            args,
            context,
            self._servers,
            provider="referencesProvider",
            method="textDocument/references",
        )
        if found is None:
            return ToolOutcome(f"No references of {args.symbol} were found.")
        files = len({place.path for place in found})
        told = await asyncio.to_thread(by_file, found, context, most=_SHOWN)
        return ToolOutcome(
            f"Found {len(found)} {'reference' if len(found) == 1 else 'references'}"
            f" in {files} {'file' if files == 1 else 'files'}\n\n{told}"
        )


async def _ask(at: Candidate) -> Sequence[CodeLocation] | None:
    return await at.client.references(at.path, at.position) or None
