"""Renames a symbol everywhere the language server finds it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools.contract import (
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.files import approval_snapshot, changes, text_file
from agents.tools.files.changes import Change
from agents.tools.files.paths import is_inside, is_protected_path, resolve, shown
from agents.tools.limits import MAX_TEXT_BYTES
from agents.tools.lsp import symbol_search
from agents.tools.lsp.documents import MOST_OPEN
from agents.tools.lsp.positions import EditsClash, PositionedText, TextEdit
from agents.tools.lsp.service import report_changes
from agents.tools.lsp.symbol_names import SymbolName
from agents.tools.lsp.symbol_search import Candidate, SymbolArgs, first_answer
from agents.tools.lsp.workspace import WorkspaceServers

MAX_FILES = 200
_SHOWN_BYTES = 2 * MAX_TEXT_BYTES


async def plan(
    edits: Mapping[Path, Sequence[TextEdit]], encoding: str, context: ToolContext, *, first: Path
) -> list[Change]:
    """Converts edits to changes, those of the file ``first`` before others.

    Raises ``ToolRefusal``.
    """
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


async def required_permission(
    tool_name: str, planned: Sequence[Change], context: ToolContext, *, description: str
) -> RequiredPermission:
    approval_snapshot.remember(context, *changes.facts_of(planned))
    return RequiredPermission(
        tool_name=tool_name,
        action="write",
        path=str(context.working_dir),
        description=description,
        params=contents(planned, context),
        files=tuple(str(change.path) for change in planned),
        always_asks=await asyncio.to_thread(_is_protected, planned, context),
    )


def _is_protected(planned: Sequence[Change], context: ToolContext) -> bool:
    return any(is_protected_path(change.path, str(change.path), context) for change in planned)


def contents(planned: Sequence[Change], context: ToolContext) -> dict[str, str]:
    """Returns the old and new content for clients to compare; several files are joined."""
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
        raise ToolRefusal(
            f"The rename would also change {resolved}, which is outside of the workspace."
        )
    try:
        file = text_file.read(resolved, max_bytes=MAX_TEXT_BYTES)
    except FileNotFoundError:
        raise ToolRefusal(f"The rename would change {resolved}, which no longer exists.") from None
    if file.form.newline == "\r\n":
        edits = [TextEdit(edit.span, edit.text.replace("\r\n", "\n")) for edit in edits]
    try:
        after = PositionedText(file.text, encoding).apply(edits)
    except EditsClash:
        raise ToolRefusal(f"The language server's edits of {resolved} overlap.") from None
    if "\0" in after or not _is_text(after):
        raise ToolRefusal(f"The language server's edits of {resolved} are not valid text.")
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
    repetition = Repetition.EFFECT
    spec = ToolSpec(
        name="lsp_rename",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                **symbol_search.PROPERTIES,
                "new_name": {"type": "string", "description": "The new name of the symbol."},
            },
            "required": ["symbol", "new_name"],
        },
    )

    def __init__(self, servers: WorkspaceServers) -> None:
        self._servers = servers

    def parse(self, given: Mapping[str, Any]) -> RenameArgs:
        about = symbol_search.parse(given)
        new_name = symbol_search.symbol(given, "new_name").strip()
        return RenameArgs(about, new_name)

    async def required_permission(
        self, args: RenameArgs, context: ToolContext
    ) -> RequiredPermission | None:
        planned = await self._plan(args, context)
        return await required_permission(
            self.spec.name,
            planned,
            context,
            description=f"Rename {args.about.symbol} to {args.new_name} in {_named(planned, context)}",
        )

    async def run(self, args: RenameArgs, context: ToolContext) -> ToolOutcome:
        planned = await self._plan(args, context)
        metadata = contents(planned, context)
        await changes.commit_all(planned, context)
        summary = f"Renamed {args.about.symbol} to {args.new_name} in {_named(planned, context)}."
        diagnostics = await report_changes(self._servers, [change.path for change in planned])
        return ToolOutcome(
            "\n\n".join(part for part in (summary, diagnostics) if part),
            metadata={**metadata, "action": "rename"},
        )

    async def _plan(self, args: RenameArgs, context: ToolContext) -> list[Change]:
        """Plans the changes. Raises ``ToolRefusal`` when nothing would change."""

        async def request(at: Candidate) -> list[Change] | None:
            edits = await _edits(at, args.new_name, context)
            return await self._planned(edits, at, context, args) or None

        planned = await first_answer(
            request,
            args.about,
            context,
            self._servers,
            provider="renameProvider",
            method="textDocument/rename",
        )
        if planned is None:
            raise ToolRefusal(f"There is no symbol {args.about.symbol} that can be renamed.")
        return planned

    async def _planned(
        self,
        edits: Mapping[Path, Sequence[TextEdit]],
        at: Candidate,
        context: ToolContext,
        args: RenameArgs,
    ) -> list[Change]:
        planned = await plan(edits, at.client.capabilities.encoding, context, first=at.path)
        name = SymbolName.parse(args.about.symbol).name
        for change in planned:
            # A server with an older text would overwrite parts of other words.
            is_less = change.after.count(name) < change.old_content.count(name)
            if not is_less and name not in args.new_name:
                raise ToolRefusal(
                    f"The language server has an outdated text of {change.path}. Use lsp_restart first."
                )
        return planned


async def _edits(
    at: Candidate, new_name: str, context: ToolContext
) -> Mapping[Path, Sequence[TextEdit]]:
    """Requests edits against the texts that this client has sent.

    A text that the server read from the disk may be older, or have other positions (because
    of a byte order mark, for example). The affected files are therefore sent first, and the
    edits requested again if that changed a text.
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
