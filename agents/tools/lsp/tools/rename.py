"""Renames a symbol wherever the language server knows it to be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import changes
from agents.tools.changes import Change
from agents.tools.contract import Question, ToolContext, ToolOutcome, ToolRefusal
from agents.tools.description import beside
from agents.tools.lsp import rewriting, symbol_arguments
from agents.tools.lsp.asking import first_answer
from agents.tools.lsp.documents import MOST_OPEN
from agents.tools.lsp.locating import Candidate
from agents.tools.lsp.naming import SymbolName
from agents.tools.lsp.positions import Edit
from agents.tools.lsp.service import report_changes
from agents.tools.lsp.symbol_arguments import SymbolArgs
from agents.tools.lsp.workspace import WorkspaceServers
from agents.tools.paths import is_inside, shown

_NAMED = 50


@dataclass(frozen=True, slots=True)
class RenameArgs:
    about: SymbolArgs
    new_name: str


class Rename:
    parallel = False
    spec = ToolSpec(
        name="lsp_rename",
        description=beside(__file__),
        schema={
            "type": "object",
            "properties": {
                **symbol_arguments.PROPERTIES,
                "new_name": {"type": "string", "description": "Its new name."},
            },
            "required": ["symbol", "new_name"],
        },
    )

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    def parse(self, given: Mapping[str, Any]) -> RenameArgs:
        about = symbol_arguments.parse(given)
        new_name = symbol_arguments.symbol(given, "new_name").strip()
        return RenameArgs(about, new_name)

    async def question(self, args: RenameArgs, context: ToolContext) -> Question | None:
        planned = await self._plan(args, context)
        return await rewriting.question(
            self.spec.name,
            planned,
            context,
            description=f"Rename {args.about.symbol} to {args.new_name} in {_named(planned, context)}",
        )

    async def run(self, args: RenameArgs, context: ToolContext) -> ToolOutcome:
        planned = await self._plan(args, context)
        metadata = rewriting.contents(planned, context)
        await changes.commit_all(planned, context)
        told = f"Renamed {args.about.symbol} to {args.new_name} in {_named(planned, context)}."
        said = await report_changes(self._servers, [change.path for change in planned])
        return ToolOutcome(
            "\n\n".join(part for part in (told, said) if part),
            metadata={**metadata, "action": "rename"},
        )

    async def _plan(self, args: RenameArgs, context: ToolContext) -> list[Change]:
        """Raises ``ToolRefusal`` when nothing would change."""

        async def ask(at: Candidate) -> list[Change] | None:
            edits = await _edits(at, args.new_name, context)
            return await self._planned(edits, at, context, args) or None

        planned = await first_answer(
            ask,
            args.about,
            context,
            self._servers,
            provider="renameProvider",
            method="textDocument/rename",
        )
        if planned is None:
            raise ToolRefusal(f"Nothing that can be renamed is called {args.about.symbol}.")
        return planned

    async def _planned(
        self,
        edits: Mapping[Path, Sequence[Edit]],
        at: Candidate,
        context: ToolContext,
        args: RenameArgs,
    ) -> list[Change]:
        planned = await rewriting.plan(edits, at.client.abilities.encoding, context, first=at.path)
        name = SymbolName.parse(args.about.symbol).name
        for change in planned:
            # A server that looked at an older text would cut through other words.
            is_less = change.after.count(name) < change.old_content.count(name)
            if not is_less and name not in args.new_name:
                raise ToolRefusal(
                    f"The language server does not know {change.path} as it is now. Use lsp_restart first."
                )
        return planned


async def _edits(
    at: Candidate, new_name: str, context: ToolContext
) -> Mapping[Path, Sequence[Edit]]:
    """Edits of texts that the server has from us.

    What it read from the disk by itself may be older, or counted otherwise (with a byte
    order mark, for example), so files that turn out to be concerned are told first.
    """
    edits = await at.client.rename(at.path, at.position, new_name)
    has_changed = False
    for path in [path for path in edits if is_inside(path, context.working_dir)][:MOST_OPEN]:
        has_changed |= (await at.client.sync(path)).has_changed
    return await at.client.rename(at.path, at.position, new_name) if has_changed else edits


def _named(planned: Sequence[Change], context: ToolContext) -> str:
    names = [shown(change.path, context) for change in planned]
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} files: {', '.join(names[:_NAMED])}{more}"
