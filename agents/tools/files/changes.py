"""A planned change to one file: its plan, its permission request and its write.

The tools edit, multiedit and write share this module. The session must have read the
file, and the file must be unchanged since, both at the permission request and at the
write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import RequiredPermission, ToolContext, ToolRefusal
from agents.tools.files import approval_snapshot, diffs, text_file
from agents.tools.files.paths import is_inside, is_kernel_path, is_protected_path, resolve, shown
from agents.tools.files.text_file import TextFile, TextForm
from agents.tools.limits import MAX_TEXT_BYTES


@dataclass(frozen=True, slots=True)
class Change:
    path: Path
    before: TextFile | None  # none for a new file
    after: str

    @property
    def old_content(self) -> str:
        return self.before.text if self.before else ""


async def current(
    file_path: str, context: ToolContext, *, before_permission: bool = False
) -> tuple[Path, TextFile | None]:
    """Returns the file's resolved path and its text, ``None`` if it does not exist.

    Raises ``ToolRefusal`` when the session has not read the file, or the file has changed
    since. ``before_permission``: permission is not yet granted, so for an unread file outside of
    the workspace the result does not depend on whether the file exists.
    """
    path = await asyncio.to_thread(resolve, file_path, context)
    if is_kernel_path(path):
        raise ToolRefusal(f"{path} is not a file on a disk; it cannot be written.")
    seen = await context.files.read_mark(str(path))
    if before_permission and seen is None and not is_inside(path, context.working_dir):
        return path, None
    try:
        if seen is None:
            await asyncio.to_thread(text_file.mark, path)
            raise ToolRefusal(
                f"{path} has not been read in this session."
                " View it first, so that the change fits it."
            )
        file = await asyncio.to_thread(text_file.read, path, max_bytes=MAX_TEXT_BYTES)
    except FileNotFoundError:
        return path, None
    if seen != file.mark:
        raise ToolRefusal(
            f"{path} has changed since it was read in this session. View it again before changing it."
        )
    return path, file


async def required_permission(
    tool_name: str, change: Change, context: ToolContext, *, named: str, description: str
) -> RequiredPermission:
    """Returns the permission request. ``named`` is the path as the model wrote it."""
    approval_snapshot.remember(context, *_facts(change))
    inside = is_inside(change.path, context.working_dir)
    return RequiredPermission(
        tool_name=tool_name,
        action="write",
        path=str(context.working_dir if inside else change.path),
        description=description,
        params={
            "file_path": str(change.path),
            "old_content": change.old_content,
            "new_content": change.after,
        },
        files=(str(change.path),),
        always_asks=await asyncio.to_thread(is_protected_path, change.path, named, context),
    )


def must_exist(path: Path, context: ToolContext, how: str) -> ToolRefusal:
    """Returns the error for a file that ``current`` did not find and that must exist."""
    if is_inside(path, context.working_dir):
        return ToolRefusal(f"{path} does not exist. {how}")
    return ToolRefusal(
        f"{path} is outside of the working directory and has not been read in this session,"
        " or does not exist. View it first."
    )


async def diff(change: Change, context: ToolContext) -> diffs.Diff:
    """Compares in a thread, because two large texts can take a second."""
    name = shown(change.path, context)
    return await asyncio.to_thread(diffs.unified, change.old_content, change.after, path=name)


async def commit(change: Change, context: ToolContext) -> None:
    """Writes the file and records its version. A cancel does not interrupt either."""
    approval_snapshot.check(context, *_facts(change))
    await _unbroken(_write_and_record(change, context))


async def with_diagnostics(message: str, change: Change, context: ToolContext) -> str:
    """Returns the message about a change, with the language servers' diagnostics of the file."""
    diagnostics = await context.languages.after_change(str(change.path))
    return f"{message}\n\n{diagnostics}" if diagnostics else message


async def commit_all(planned: Sequence[Change], context: ToolContext) -> None:
    """Writes several files like ``commit``, after checking the facts of all of them."""
    approval_snapshot.check(context, *facts_of(planned))
    await _unbroken(_write_each(planned, context))


def facts_of(planned: Sequence[Change]) -> tuple[object, ...]:
    """Returns the facts on which a permission request about several files is based."""
    return tuple(_facts(change) for change in planned)


async def _write_each(planned: Sequence[Change], context: ToolContext) -> None:
    written: list[str] = []
    for change in planned:
        try:
            await _write_and_record(change, context)
        except ToolRefusal as refusal:
            if not written:
                raise
            names = ", ".join(written)
            raise ToolRefusal(f"{refusal} These files were changed before: {names}.") from None
        written.append(shown(change.path, context))


def _facts(change: Change) -> tuple[object, ...]:
    return change.path, change.before.mark if change.before else None


def bounded(text: str) -> str:
    """Returns the text. Raises ``ToolRefusal`` if it is too large for a file."""
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_TEXT_BYTES:
        raise ToolRefusal(
            f"The file would be too large: {size:,} bytes; {MAX_TEXT_BYTES:,} are allowed."
        )
    return text


async def _write_and_record(change: Change, context: ToolContext) -> None:
    form = change.before.form if change.before else TextForm()
    expected = change.before.mark if change.before else None
    mark = await asyncio.to_thread(
        text_file.write, change.path, change.after, form, expected=expected
    )
    await context.files.record_change(
        str(change.path),
        before=change.before.text if change.before else None,
        after=change.after,
        mark=mark,
    )


async def _unbroken(work: Coroutine[None, None, None]) -> None:
    """Awaits work to its end, and raises a cancel only afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    try:
        task.result()
    finally:
        if cancelled is not None:
            raise cancelled
