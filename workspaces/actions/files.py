"""Every write to a session's file history and to its memory of what it has read."""

from __future__ import annotations

from typing import Any

from workspaces.log.ids import new_id
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import FileVersion


def record_read(tx: Transaction, session_id: str, *, path: str, mtime_ns: int, size: int) -> None:
    tx.execute(
        "INSERT INTO workspaces_fileread (session_id, path, mtime_ns, size, read_at)"
        " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (session_id, path) DO UPDATE SET"
        " mtime_ns = excluded.mtime_ns, size = excluded.size, read_at = excluded.read_at",
        [session_id, path, mtime_ns, size, tx.now],
    )


def record_change(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    path: str,
    before: str | None,
    after: str,
) -> None:
    """Adds a version; the first change of a file adds what was there before as well.

    So does a change that finds other content than the newest version: somebody
    else wrote the file in between, and that state belongs to its history.
    """
    newest = (
        FileVersion.objects.filter(session_id=session_id, path=path).order_by("-version").first()
    )
    version = newest.version + 1 if newest is not None else 0
    if newest is None or newest.content != (before or ""):
        _add(tx, workspace_id, session_id, path=path, version=version, content=before or "")
        version += 1
    _add(tx, workspace_id, session_id, path=path, version=version, content=after)


def _add(
    tx: Transaction, workspace_id: str, session_id: str, *, path: str, version: int, content: str
) -> None:
    # A NUL cannot be stored by PostgreSQL; a text file does not hold one.
    content = content.replace("\x00", "\ufffd")
    row = FileVersion(
        id=new_id(),
        session_id=session_id,
        path=path,
        version=version,
        content=content,
        position=tx.next_number(workspace_id),
        created_at=tx.now,
    )
    row.save(force_insert=True)
    tx.append(workspace_id, Kind.FILE_VERSIONED, {"file": file_wire(row)}, session_id=session_id)


def file_wire(row: FileVersion) -> dict[str, Any]:
    return {
        "content": row.content,
        "created_at": row.created_at // 1000,
        "id": row.pk,
        "path": row.path,
        "session_id": row.session_id,
        "updated_at": row.created_at // 1000,
        "version": row.version,
    }
