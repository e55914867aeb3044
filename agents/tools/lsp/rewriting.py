"""Changes to files that a language server proposes: planned, shown, written.

Only files of the workspace, each as it was when it was planned: what a session
has seen otherwise, or somebody changes meanwhile, is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.tools import asked, changes, textfile
from agents.tools.changes import Change
from agents.tools.contract import Question, ToolContext, ToolRefusal
from agents.tools.limits import MAX_TEXT_BYTES
from agents.tools.lsp.positions import Edit, EditsClash, Text
from agents.tools.paths import is_inside, resolve, shown
from agents.tools.protected_files import always_asks

MAX_FILES = 200
_SHOWN_BYTES = 2 * MAX_TEXT_BYTES


async def plan(
    edits: Mapping[Path, Sequence[Edit]], encoding: str, context: ToolContext, *, first: Path
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
    asked.remember(context, *changes.facts_of(planned))
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


def _change(path: Path, edits: Sequence[Edit], encoding: str, context: ToolContext) -> Change:
    resolved = resolve(str(path), context)
    if not is_inside(resolved, context.working_dir):
        raise ToolRefusal(f"{resolved} would change as well, which is outside of the workspace.")
    try:
        file = textfile.read(resolved, max_bytes=MAX_TEXT_BYTES)
    except FileNotFoundError:
        raise ToolRefusal(f"{resolved} would change, but is not there any more.") from None
    if file.form.newline == "\r\n":
        edits = [Edit(edit.span, edit.text.replace("\r\n", "\n")) for edit in edits]
    try:
        after = Text(file.text, encoding).apply(edits)
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
