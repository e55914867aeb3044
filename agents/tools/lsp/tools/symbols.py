"""Shows a file's outline: its classes and functions with their members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from agents.tools.files.paths import shown
from agents.tools.limits import MAX_PATH_BYTES
from agents.tools.lsp.peer import RequestFailed
from agents.tools.lsp.responses import Symbol
from agents.tools.lsp.symbol_search import client_for, inner_path
from agents.tools.lsp.workspace import WorkspaceServers

_SHOWN = 500
_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class SymbolsArgs:
    file_path: str


class Symbols:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="lsp_symbols",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {"file_path": {"type": "string", "description": "The file to outline."}},
            "required": ["file_path"],
        },
    )

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    def parse(self, given: Mapping[str, Any]) -> SymbolsArgs:
        return SymbolsArgs(
            arguments.text(given, "file_path", max_bytes=MAX_PATH_BYTES, blank=False)
        )

    async def required_permission(
        self, _args: SymbolsArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None  # it only reads

    async def run(self, args: SymbolsArgs, context: ToolContext) -> ToolOutcome:
        path = await inner_path(args.file_path, context)
        _, client = await client_for(
            self._servers,
            path,
            provider="documentSymbolProvider",
            method="textDocument/documentSymbol",
        )
        await client.sync(path)
        try:
            found = await client.symbols(path)
        except RequestFailed as failed:
            raise ToolRefusal(str(failed)) from None
        lines = list(_lines(found, 0))
        if not lines:
            return ToolOutcome(f"{shown(path, context)} has no symbols.")
        listed = lines[:_SHOWN]
        if len(lines) > _SHOWN:
            listed.append(f"(and {len(lines) - _SHOWN:,} more)")
        return ToolOutcome("\n".join(listed))


def _lines(symbols: Sequence[Symbol], depth: int) -> Iterator[str]:
    for symbol in symbols:
        first, last = symbol.span.start.line + 1, symbol.span.end.line + 1
        where = f"line {first}" if first == last else f"lines {first}-{last}"
        name = " ".join(symbol.name.split())[:_NAME_CHARS]
        yield f"{'  ' * depth}{symbol.kind} {name} ({where})"
        yield from _lines(symbol.children, depth + 1)
