"""Lists the callers of a function, or the functions that it calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import (
    BadArguments,
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    load_description,
)
from agents.tools.files.paths import shown
from agents.tools.lsp import symbol_search
from agents.tools.lsp.responses import CallEnd
from agents.tools.lsp.symbol_search import Candidate, SymbolArgs, first_answer
from agents.tools.lsp.workspace import WorkspaceServers

DIRECTIONS = ("incoming", "outgoing")
_SHOWN = 100
_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class CallsArgs:
    about: SymbolArgs
    direction: str


class CallHierarchy:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="lsp_call_hierarchy",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                **symbol_search.PROPERTIES,
                "direction": {
                    "type": "string",
                    "enum": list(DIRECTIONS),
                    "description": "incoming: who calls it (default); outgoing: what it calls.",
                },
            },
            "required": ["symbol"],
        },
    )

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    def parse(self, given: Mapping[str, Any]) -> CallsArgs:
        about = symbol_search.parse(given)
        direction = arguments.text(given, "direction", default="", max_bytes=50) or DIRECTIONS[0]
        if direction not in DIRECTIONS:
            raise BadArguments(f"direction must be incoming or outgoing, not {direction!r:.60}.")
        return CallsArgs(about, direction)

    async def required_permission(
        self, _args: CallsArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None  # it only reads

    async def run(self, args: CallsArgs, context: ToolContext) -> ToolOutcome:
        incoming = args.direction == "incoming"

        async def request(at: Candidate) -> Sequence[CallEnd] | None:
            return await at.client.calls(at.path, at.position, incoming=incoming)

        found = await first_answer(
            request,
            args.about,
            context,
            self._servers,
            provider="callHierarchyProvider",
            method="textDocument/prepareCallHierarchy",
        )
        if found is None:
            return ToolOutcome(f"{args.about.symbol} is not a function or method.")
        return ToolOutcome(_listing(args, found, context))


def _listing(args: CallsArgs, found: Sequence[CallEnd], context: ToolContext) -> str:
    symbol, incoming = args.about.symbol, args.direction == "incoming"
    if not found:
        return f"Nothing calls {symbol}." if incoming else f"{symbol} calls nothing."
    noun = ("caller" if incoming else "callee") + ("" if len(found) == 1 else "s")
    lines = [f"{symbol} has {len(found)} {noun}:"]
    for end in found[:_SHOWN]:
        place = f"{shown(end.place.path, context)}:{end.place.span.start.line + 1}"
        times = f" ({end.calls} times)" if end.calls > 1 else ""
        name = " ".join(end.name.split())[:_NAME_CHARS]
        lines.append(f"  {place} {end.kind} {name}{times}")
    if len(found) > _SHOWN:
        lines.append(f"(and {len(found) - _SHOWN:,} more)")
    return "\n".join(lines)
