"""Rewinds a session to a message, with or without files, and undoes that.

The first transaction stores the plan, then the files are restored one by one, and the second
transaction removes the messages. Each step can be repeated, so ``finish_left`` completes a rewind
whose process died. Until then no run of the session is claimed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agents.models import Run
from agents.runs import nudges
from agents.runs.objects.board import first_line
from agents.states import RunState
from agents.tools.contract import ToolRefusal
from agents.tools.files.restore_plan import (
    FileEntry,
    FileResult,
    LeftReason,
    VersionFacts,
    entries_of,
    plan_files,
)
from agents.tools.files.text_restore import FileChanged, check, restore
from people.actions.audit import Act, record
from workspaces.access import Actor, author_of
from workspaces.actions.files import record_restored
from workspaces.actions.rewinds import (
    add_rewind,
    position_before,
    put_back_messages,
    remove_messages,
    require_newest,
    rewind_wire,
)
from workspaces.actions.sessions import read_session, tree_of
from workspaces.log.errors import Refusal, RewindUnfinished, RewindUnknown, SessionBusy
from workspaces.log.parts import Role
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import (
    UNFINISHED_REWINDS,
    FileVersion,
    Message,
    Rewind,
    RewindState,
    Workspace,
)
from workspaces.queries.sessions import require_session
from workspaces.queries.workspaces import require_open

logger = logging.getLogger(__name__)

MOST_PREVIEWED = 100
LEFT_AFTER_MS = 60_000  # an unfinished rewind of another process is completed by this one


async def rewind(
    workspace_id: str,
    session_id: str,
    *,
    message_id: str = "",
    keeps_message: bool = True,
    with_files: bool = False,
    actor: Actor | None = None,
) -> dict[str, Any]:
    """Removes the messages after ``message_id`` (and that message too, unless it is kept).

    Without a message it removes all. Returns the rewind. Raises the same as ``begin_rewind``.
    """
    key = await writer.write(
        workspace_id,
        lambda tx: begin_rewind(
            tx,
            workspace_id,
            session_id,
            message_id=message_id,
            keeps_message=keeps_message,
            with_files=with_files,
            actor=actor,
        ),
    )
    return await finish_rewind(key)


def preview_rewind(
    workspace_id: str,
    session_id: str,
    *,
    message_id: str = "",
    keeps_message: bool = True,
    with_files: bool = False,
) -> dict[str, Any]:
    """Returns what ``rewind`` would remove and restore now; changes nothing. Blocks.

    Raises ``SessionUnknown`` and ``MessageUnknown``.
    """
    require_session(workspace_id, session_id)
    position = position_before(session_id, message_id, is_included=keeps_message)
    removed = Message.objects.filter(session_id=session_id, position__gt=position)
    shown = removed.filter(role__in=(Role.USER, Role.ASSISTANT)).order_by("position")
    tree = tree_of(session_id)
    plan = _plan(workspace_id, tree, after=position) if with_files else []
    files = [
        entry
        if entry.result
        else _attempt(entry, _contents((entry.expected, entry.restored)), check)
        for entry in plan
    ]
    return {
        "message_count": removed.count(),
        "messages": [
            {"id": message.pk, "role": message.role, "first_line": first_line(message.parts)}
            for message in shown[:MOST_PREVIEWED]
        ],
        "files": [{"path": e.path, "result": e.result, "reason": e.reason} for e in files],
        "is_busy": _has_work(workspace_id, tree),
    }


async def undo_rewind(
    workspace_id: str, session_id: str, rewind_id: str, *, actor: Actor | None = None
) -> dict[str, Any]:
    """Restores the messages and files of a rewind. Raises the same as ``begin_undo``."""
    await writer.write(
        workspace_id, lambda tx: begin_undo(tx, workspace_id, session_id, rewind_id, actor=actor)
    )
    return await finish_rewind(rewind_id)


def begin_rewind(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    message_id: str = "",
    keeps_message: bool = True,
    with_files: bool = False,
    actor: Actor | None = None,
) -> str:
    """Stores a rewind and returns its id. Call ``finish_rewind`` after the commit.

    A prompt that the same transaction accepts afterwards waits for its end. Raises
    ``SessionUnknown``, ``MessageUnknown``, ``SessionBusy`` and ``RewindUnfinished``.
    """
    tree = _require_idle(tx, workspace_id, session_id)
    position = position_before(session_id, message_id, is_included=keeps_message)
    row = store_rewind(
        tx,
        workspace_id,
        session_id,
        tree,
        position=position,
        with_files=with_files,
        author=author_of(actor),
    )
    record(
        tx,
        actor,
        Act.REWIND,
        workspace_id=workspace_id,
        session_id=session_id,
        target=row.message_id,
        details={"rewind": row.pk, "with_files": with_files},
    )
    return row.pk


def store_rewind(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    tree: Sequence[str],
    *,
    position: int,
    with_files: bool,
    author: Mapping[str, Any] | None,
) -> Rewind:
    """Stores a rewind to the message at this position, and completes it if no file is to restore.

    ``tree``: the session and its child sessions, of which none may have work.
    """
    plan = _plan(workspace_id, tree, after=position) if with_files else []
    row = add_rewind(
        tx,
        workspace_id,
        session_id,
        position=position,
        with_files=with_files,
        plan=[entry.to_json() for entry in plan],
        author=author,
    )
    if all(entry.result for entry in plan):
        remove_messages(tx, row, files=row.plan)
    return row


def begin_undo(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    rewind_id: str,
    *,
    actor: Actor | None = None,
) -> None:
    """Marks a rewind for its undoing. Call ``finish_rewind`` after the commit.

    Raises ``RewindUnknown``, ``RewindOutdated`` and what ``begin_rewind`` raises.
    """
    _require_idle(tx, workspace_id, session_id)
    row = require_newest(session_id, rewind_id)
    done = {FileResult.RESTORED, FileResult.DELETED}
    plan = [entry.undoing() for entry in entries_of(row.files) if entry.result in done]
    row.state = RewindState.UNDOING
    row.plan = [entry.to_json() for entry in plan]
    row.began_at = tx.now
    row.undone_by = author_of(actor)
    row.save()
    record(
        tx,
        actor,
        Act.UNDO_REWIND,
        workspace_id=workspace_id,
        session_id=session_id,
        target=row.message_id,
        details={"rewind": row.pk},
    )
    if not plan:
        put_back_messages(tx, row, files=[])


def _is_here(_path: str) -> bool:
    return True


_has_folder: Callable[[str], bool] = _is_here


def restore_where(has_folder: Callable[[str], bool] = _is_here) -> None:
    """``has_folder``: whether this process may restore files of the workspace with this path."""
    global _has_folder
    _has_folder = has_folder


async def finish_rewind(rewind_id: str) -> dict[str, Any]:
    """Restores the files of a stored rewind, or of its undoing, and completes it.

    Returns the rewind. Repeatable; does nothing if it is complete. Raises ``RewindUnknown``.
    """
    row = await read(_read, rewind_id)
    # Without the folder it is left to a worker that has it.
    if row.state in UNFINISHED_REWINDS and await read(lambda: _has_folder(row.workspace.path)):
        files = [
            (await _restore(row, entry) if not entry.result else entry).to_json()
            for entry in entries_of(row.plan)
        ]
        await writer.write(row.workspace_id, lambda tx: _complete(tx, row, files))
        await nudges.nudge_accepted()  # prompts may have waited for this
    return await read(lambda: rewind_wire(_read(rewind_id)))


async def finish_left(*, begun_before: int) -> None:
    """Completes the rewinds whose processes died."""
    for rewind_id in await read(_left_ones, begun_before):
        try:
            await finish_rewind(rewind_id)
            logger.info("a rewind whose process stopped was completed: %s", rewind_id)
        except Refusal as refusal:  # its session is gone, or the server stops
            logger.info("a rewind was not completed: %s", refusal)


def _require_idle(tx: Transaction, workspace_id: str, session_id: str) -> list[str]:
    """Returns the session and its child sessions. Raises if one of them has work."""
    tx.lock(workspace_id)
    require_open(workspace_id)
    read_session(tx, workspace_id, session_id)
    tree = tree_of(session_id)
    if Rewind.objects.filter(session_id__in=tree, state__in=UNFINISHED_REWINDS).exists():
        raise RewindUnfinished
    if _has_work(workspace_id, tree):
        raise SessionBusy
    return tree


def _has_work(workspace_id: str, tree: Sequence[str]) -> bool:
    runs = Run.objects.filter(session_id__in=tree).exclude(state=RunState.FINISHED)
    # A command that a user runs has an open message and no run.
    commands = Message.objects.filter(
        workspace_id=workspace_id, session_id__in=tree, is_finished=False
    )
    return runs.exists() or commands.exists()


# -- files


def _plan(workspace_id: str, tree: Sequence[str], *, after: int) -> list[FileEntry]:
    rows = FileVersion.objects.filter(session_id__in=tree).order_by("position")
    versions = [
        VersionFacts(
            row.pk,
            row.path,
            row.position,
            row.version == 0 if row.is_found is None else row.is_found,
        )
        for row in rows.defer("content")
    ]
    folder = Workspace.objects.values_list("path", flat=True).get(pk=workspace_id)
    return plan_files(versions, folder=folder, after=after, is_same=_have_same_content)


def _have_same_content(one: VersionFacts, other: VersionFacts) -> bool:
    if one.id == other.id:
        return True
    rows = FileVersion.objects.filter(pk__in=[one.id, other.id])
    return len(set(rows.values_list("content", "is_absent"))) == 1


async def _restore(row: Rewind, entry: FileEntry) -> FileEntry:
    """Restores one file and records its version; returns the entry with its result."""
    contents = await read(_contents, (entry.expected, entry.restored))
    done = await asyncio.to_thread(_attempt, entry, contents, restore)
    if done.result != FileResult.LEFT:
        content = contents[entry.restored]

        def job(tx: Transaction) -> None:
            record_restored(tx, row.workspace_id, row.session_id, path=entry.path, content=content)

        await writer.write(row.workspace_id, job)
    return done


class _FileWork(Protocol):
    def __call__(self, path: Path, *, expected: str | None, content: str | None) -> object: ...


def _attempt(entry: FileEntry, contents: Mapping[str, str | None], work: _FileWork) -> FileEntry:
    """Returns the entry with the result of ``restore``, or of ``check``, which changes nothing."""
    if len(contents) < 2:
        return _left(entry, LeftReason.MISSING_VERSION)
    expected, content = contents[entry.expected], contents[entry.restored]
    try:
        work(Path(entry.path), expected=expected, content=content)
    except FileChanged:
        return _left(entry, LeftReason.CHANGED)
    except (ToolRefusal, OSError) as error:
        logger.info("a rewind leaves a file: %s", error)
        return _left(entry, LeftReason.UNREADABLE)
    result = FileResult.DELETED if content is None else FileResult.RESTORED
    return FileEntry(entry.path, entry.expected, entry.restored, result)


def _left(entry: FileEntry, reason: LeftReason) -> FileEntry:
    return FileEntry(entry.path, entry.expected, entry.restored, FileResult.LEFT, reason)


def _contents(version_ids: Iterable[str]) -> dict[str, str | None]:
    rows = FileVersion.objects.filter(pk__in=list(version_ids))
    return {row.pk: None if row.is_absent else row.content for row in rows}


def _complete(tx: Transaction, known: Rewind, files: list[dict[str, str]]) -> None:
    tx.lock(known.workspace_id)
    row = _read(known.pk)
    if row.state != known.state or row.began_at != known.began_at:
        return  # another process has completed it
    if row.state == RewindState.APPLYING:
        remove_messages(tx, row, files=files)
    else:
        put_back_messages(tx, row, files=files)


def _read(rewind_id: str) -> Rewind:
    row = Rewind.objects.filter(pk=rewind_id).first()
    if row is None:
        raise RewindUnknown
    return row


def _left_ones(begun_before: int) -> list[str]:
    rows = Rewind.objects.filter(state__in=UNFINISHED_REWINDS, began_at__lt=begun_before)
    found = rows.order_by("began_at").values_list("pk", "workspace__path")
    return [key for key, path in found if _has_folder(path)]
