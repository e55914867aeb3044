"""Finds where a symbol is defined."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools.contract import Question, ToolContext, ToolOutcome
from agents.tools.description import load_description
from agents.tools.files.paths import shown
from agents.tools.lsp import locating
from agents.tools.lsp.answers import CodeLocation
from agents.tools.lsp.locating import Candidate, SymbolArgs, first_answer
from agents.tools.lsp.showing import Quotes
from agents.tools.lsp.workspace import WorkspaceServers

_SHOWN = 20
_LINES_AROUND = 5


class Definition:
    parallel = True
    spec = ToolSpec(
        name="lsp_definition",
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
            provider="definitionProvider",
            method="textDocument/definition",
        )
        if found is None:
            return ToolOutcome(f"No definition of {args.symbol} was found.")
        return await asyncio.to_thread(_told, found, context)


async def _ask(at: Candidate) -> Sequence[CodeLocation] | None:
    return await at.client.definition(at.path, at.position) or None


def _told(found: Sequence[CodeLocation], context: ToolContext) -> ToolOutcome:
    quotes = Quotes(context)
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
