"""A planned change to one file: from its plan, through the question, to the disk.

Shared by edit, multiedit and write. A file must have been read by its session
and be as it was then, both when the question is asked and when the change is
made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import Question, ToolContext, ToolRefusal
from agents.tools.files import approval_snapshot, diffs, text_file
from agents.tools.files.paths import is_inside, is_kernel_path, resolve, shown
from agents.tools.files.protected_files import always_asks
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
    file_path: str, context: ToolContext, *, for_question: bool = False
) -> tuple[Path, TextFile | None]:
    """The file's resolved path and its text, ``None`` if there is none.

    Raises ``ToolRefusal`` when it was not read in this session, or changed since.
    ``for_question``: nobody has allowed anything yet, so for a file outside of the workspace
    that was not read either this is the same whether the file exists or not.
    """
    path = await asyncio.to_thread(resolve, file_path, context)
    if is_kernel_path(path):
        raise ToolRefusal(f"{path} is not a file on a disk; it cannot be written.")
    seen = await context.files.read_mark(str(path))
    if for_question and seen is None and not is_inside(path, context.working_dir):
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


async def question(
    tool_name: str, change: Change, context: ToolContext, *, named: str, description: str
) -> Question:
    """``named`` is the path as the model wrote it."""
    approval_snapshot.remember(context, *_facts(change))
    inside = is_inside(change.path, context.working_dir)
    return Question(
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
        always_asks=await asyncio.to_thread(always_asks, change.path, named, context),
    )


def must_exist(path: Path, context: ToolContext, how: str) -> ToolRefusal:
    """For a change of a file of which ``current`` says that it does not exist."""
    if is_inside(path, context.working_dir):
        return ToolRefusal(f"{path} does not exist. {how}")
    return ToolRefusal(
        f"{path} is outside of the working directory and has not been read in this session,"
        " or does not exist. View it first."
    )


async def diff(change: Change, context: ToolContext) -> diffs.Diff:
    """In a thread: two large texts can take a second to compare."""
    name = shown(change.path, context)
    return await asyncio.to_thread(diffs.unified, change.old_content, change.after, path=name)


async def commit(change: Change, context: ToolContext) -> None:
    """Write the file and its version. Once begun both are done, even when cancelled."""
    approval_snapshot.check(context, *_facts(change))
    await _unbroken(_write_and_record(change, context))


async def judged(told: str, change: Change, context: ToolContext) -> str:
    """What is told of a change that was made, with what language servers say of the file now."""
    said = await context.languages.after_change(str(change.path))
    return f"{told}\n\n{said}" if said else told


async def commit_all(planned: Sequence[Change], context: ToolContext) -> None:
    """As ``commit``, for the several files of one change, all judged before the first is written."""
    approval_snapshot.check(context, *facts_of(planned))
    await _unbroken(_write_each(planned, context))


def facts_of(planned: Sequence[Change]) -> tuple[object, ...]:
    """By what a question about several files is judged."""
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
            raise ToolRefusal(f"{refusal} Changed before it were: {names}.") from None
        written.append(shown(change.path, context))


def _facts(change: Change) -> tuple[object, ...]:
    return change.path, change.before.mark if change.before else None


def bounded(text: str) -> str:
    """The text, if a file may be that large."""
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
    """Await it to its end; a cancel that comes meanwhile is raised after it."""
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
