"""Finds every use of a symbol, as the language server understands it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools.contract import Question, ToolContext, ToolOutcome, ToolRefusal
from agents.tools.description import beside
from agents.tools.lsp import symbol_arguments
from agents.tools.lsp.locating import candidates
from agents.tools.lsp.peer import RequestFailed
from agents.tools.lsp.showing import by_file
from agents.tools.lsp.symbol_arguments import SymbolArgs
from agents.tools.lsp.workspace import WorkspaceServers

_SHOWN = 200


class References:
    parallel = True
    spec = ToolSpec(
        name="references",
        description=beside(__file__),
        schema={
            "type": "object",
            "properties": symbol_arguments.PROPERTIES,
            "required": ["symbol"],
        },
    )

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    def parse(self, given: Mapping[str, Any]) -> SymbolArgs:
        return symbol_arguments.parse(given)

    async def question(self, args: SymbolArgs, context: ToolContext) -> Question | None:  # noqa: ARG002
        return None  # it only looks

    async def run(self, args: SymbolArgs, context: ToolContext) -> ToolOutcome:
        failed: RequestFailed | None = None
        async for at in candidates(
            args.symbol,
            args.path,
            context,
            self._servers,
            provider="referencesProvider",
            method="textDocument/references",
        ):
            try:
                found = await at.client.references(at.path, at.position)
            except RequestFailed as error:
                failed = error
                continue
            if found:
                files = len({place.path for place in found})
                told = await asyncio.to_thread(by_file, found, context, most=_SHOWN)
                return ToolOutcome(
                    f"Found {len(found)} {'reference' if len(found) == 1 else 'references'}"
                    f" in {files} {'file' if files == 1 else 'files'}\n\n{told}"
                )
        if failed is not None:
            raise ToolRefusal(str(failed))
        return ToolOutcome(f"No references of {args.symbol} were found.")
