"""Every write to a session's file versions and to its record of files read."""

from __future__ import annotations

from typing import Any

from workspaces.log.ids import new_id
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import FileRead, FileVersion
from workspaces.storable import storable_text


def record_read(tx: Transaction, session_id: str, *, path: str, mtime_ns: int, size: int) -> None:
    row = FileRead(session_id=session_id, path=path, mtime_ns=mtime_ns, size=size, read_at=tx.now)
    FileRead.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["session", "path"],
        update_fields=["mtime_ns", "size", "read_at"],
    )


def record_change(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    path: str,
    before: str | None,
    after: str | None,
) -> None:
    """Adds a file version; the first change of a file also adds its previous content.

    A change that finds other content than the newest version adds that content too: another
    program wrote the file in between. ``None`` stands for no file.
    """
    newest = _newest(session_id, path)
    version = newest.version + 1 if newest is not None else 0
    if newest is None or not _has_content(newest, before):
        _add(tx, workspace_id, session_id, path, version, before, is_found=True)
        version += 1
    _add(tx, workspace_id, session_id, path, version, after, is_found=False)


def record_restored(
    tx: Transaction, workspace_id: str, session_id: str, *, path: str, content: str | None
) -> None:
    """Adds the version of a file that a rewind has restored, unless it is the newest already."""
    newest = _newest(session_id, path)
    if newest is None or not _has_content(newest, content):
        version = newest.version + 1 if newest is not None else 0
        _add(tx, workspace_id, session_id, path, version, content, is_found=False)


def _newest(session_id: str, path: str) -> FileVersion | None:
    versions = FileVersion.objects.filter(session_id=session_id, path=path)
    return versions.order_by("-version").first()


def _has_content(version: FileVersion, content: str | None) -> bool:
    if version.content != storable_text(content or ""):
        return False
    return version.is_absent is None or version.is_absent == (content is None)


def _add(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    path: str,
    version: int,
    content: str | None,
    *,
    is_found: bool,
) -> None:
    row = FileVersion(
        id=new_id(),
        session_id=session_id,
        path=path,
        version=version,
        content=storable_text(content or ""),
        position=tx.next_number(workspace_id),
        is_found=is_found,
        is_absent=content is None,
        created_at=tx.now,
    )
    row.save(force_insert=True)
    tx.append(workspace_id, Kind.FILE_VERSIONED, {"file": file_wire(row)}, session_id=session_id)


def file_wire(row: FileVersion) -> dict[str, Any]:
    """Returns the version for native clients; ``is_absent`` only where there was no file."""
    absent = {"is_absent": True} if row.is_absent else {}
    return {
        "content": row.content,
        "created_at": row.created_at // 1000,
        "id": row.pk,
        "path": row.path,
        "session_id": row.session_id,
        "updated_at": row.created_at // 1000,
        "version": row.version,
        **absent,
    }
