"""Renames a symbol wherever the language server knows it to be used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools.contract import Question, ToolContext, ToolOutcome, ToolRefusal
from agents.tools.description import load_description
from agents.tools.files import approval_snapshot, changes, text_file
from agents.tools.files.changes import Change
from agents.tools.files.paths import is_inside, resolve, shown
from agents.tools.files.protected_files import always_asks
from agents.tools.limits import MAX_TEXT_BYTES
from agents.tools.lsp import locating
from agents.tools.lsp.documents import MOST_OPEN
from agents.tools.lsp.locating import Candidate, SymbolArgs, first_answer
from agents.tools.lsp.naming import SymbolName
from agents.tools.lsp.positions import EditsClash, PositionedText, TextEdit
from agents.tools.lsp.service import report_changes
from agents.tools.lsp.workspace import WorkspaceServers

MAX_FILES = 200
_SHOWN_BYTES = 2 * MAX_TEXT_BYTES


async def plan(
    edits: Mapping[Path, Sequence[TextEdit]], encoding: str, context: ToolContext, *, first: Path
) -> list[Change]:
    """The file that was asked about first. Raises ``ToolRefusal``."""
    if len(edits) > MAX_FILES:
        raise ToolRefusal(f"{len(edits):,} files would change; {MAX_FILES} are allowed.")
    planned: list[Change] = []
    for path in sorted(edits, key=lambda p: (p != first, str(p))):
        change = await asyncio.to_thread(_change, path, edits[path], encoding, context)
        if change.before is None or change.after == change.before.text:
            continue
        seen = await context.files.read_mark(str(change.path))
        if seen is not None and seen != change.before.mark:
            raise ToolRefusal(
                f"{change.path} has changed since it was read in this session. View it again first."
            )
        planned.append(change)
    return planned


async def question(
    tool_name: str, planned: Sequence[Change], context: ToolContext, *, description: str
) -> Question:
    approval_snapshot.remember(context, *changes.facts_of(planned))
    return Question(
        tool_name=tool_name,
        action="write",
        path=str(context.working_dir),
        description=description,
        params=contents(planned, context),
        files=tuple(str(change.path) for change in planned),
        always_asks=await asyncio.to_thread(_always_asks, planned, context),
    )


def _always_asks(planned: Sequence[Change], context: ToolContext) -> bool:
    return any(always_asks(change.path, str(change.path), context) for change in planned)


def contents(planned: Sequence[Change], context: ToolContext) -> dict[str, str]:
    """Before and after as clients compare them; several files one below the other."""
    first = str(planned[0].path)
    if len(planned) == 1:
        (change,) = planned
        return {
            "file_path": first,
            "old_content": change.old_content,
            "new_content": change.after,
        }
    old: list[str] = []
    new: list[str] = []
    size = 0
    for change in planned:
        head = f"==> {shown(change.path, context)} <==\n"
        size += len(change.old_content) + len(change.after)
        if size > _SHOWN_BYTES:
            old.append(f"{head}(too large to be shown)\n")
            new.append(f"{head}(too large to be shown, changed)\n")
            continue
        old.append(head + change.old_content)
        new.append(head + change.after)
    return {"file_path": first, "old_content": "\n".join(old), "new_content": "\n".join(new)}


def _change(path: Path, edits: Sequence[TextEdit], encoding: str, context: ToolContext) -> Change:
    resolved = resolve(str(path), context)
    if not is_inside(resolved, context.working_dir):
        raise ToolRefusal(f"{resolved} would change as well, which is outside of the workspace.")
    try:
        file = text_file.read(resolved, max_bytes=MAX_TEXT_BYTES)
    except FileNotFoundError:
        raise ToolRefusal(f"{resolved} would change, but is not there any more.") from None
    if file.form.newline == "\r\n":
        edits = [TextEdit(edit.span, edit.text.replace("\r\n", "\n")) for edit in edits]
    try:
        after = PositionedText(file.text, encoding).apply(edits)
    except EditsClash:
        raise ToolRefusal(
            f"The language server's edits of {resolved} contradict themselves."
        ) from None
    if "\0" in after or not _is_text(after):
        raise ToolRefusal(f"The language server's edits of {resolved} are not text.")
    return Change(resolved, file, changes.bounded(after))


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_NAMED = 50


@dataclass(frozen=True, slots=True)
class RenameArgs:
    about: SymbolArgs
    new_name: str


class Rename:
    parallel = False
    spec = ToolSpec(
        name="lsp_rename",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                **locating.PROPERTIES,
                "new_name": {"type": "string", "description": "Its new name."},
            },
            "required": ["symbol", "new_name"],
        },
    )

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    def parse(self, given: Mapping[str, Any]) -> RenameArgs:
        about = locating.parse(given)
        new_name = locating.symbol(given, "new_name").strip()
        return RenameArgs(about, new_name)

    async def question(self, args: RenameArgs, context: ToolContext) -> Question | None:
        planned = await self._plan(args, context)
        return await question(
            self.spec.name,
            planned,
            context,
            description=f"Rename {args.about.symbol} to {args.new_name} in {_named(planned, context)}",
        )

    async def run(self, args: RenameArgs, context: ToolContext) -> ToolOutcome:
        planned = await self._plan(args, context)
        metadata = contents(planned, context)
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
        edits: Mapping[Path, Sequence[TextEdit]],
        at: Candidate,
        context: ToolContext,
        args: RenameArgs,
    ) -> list[Change]:
        planned = await plan(edits, at.client.abilities.encoding, context, first=at.path)
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
) -> Mapping[Path, Sequence[TextEdit]]:
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
