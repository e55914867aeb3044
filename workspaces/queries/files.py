"""Reads a session's file versions and the files it has read. Synchronous: use ``read``.

Each function raises ``WorkspaceUnknown`` or ``SessionUnknown``.
"""

from __future__ import annotations

from typing import Any

from workspaces.models import FileRead, FileVersion
from workspaces.queries.sessions import require_session


def list_file_versions(workspace_id: str, session_id: str) -> list[dict[str, Any]]:
    """Returns every file version, in the order of the changes; field names are capitalized."""
    require_session(workspace_id, session_id)
    return [
        {
            "Content": row.content,
            "CreatedAt": row.created_at // 1000,
            "ID": row.pk,
            "Path": row.path,
            "SessionID": session_id,
            "UpdatedAt": row.created_at // 1000,
            "Version": row.version,
        }
        for row in FileVersion.objects.filter(session_id=session_id).order_by("position")
    ]


def list_read_files(workspace_id: str, session_id: str) -> list[str]:
    require_session(workspace_id, session_id)
    rows = FileRead.objects.filter(session_id=session_id)
    return list(rows.order_by("path").values_list("path", flat=True))


def read_last_read(workspace_id: str, session_id: str, path: str) -> int | None:
    """Returns when the session read a file, in milliseconds, or ``None``."""
    require_session(workspace_id, session_id)
    row = FileRead.objects.filter(session_id=session_id, path=path).first()
    return None if row is None else row.read_at
