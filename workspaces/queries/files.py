"""Reading a session's file history and what it has read. Synchronous: called through ``read``.

Each function raises ``WorkspaceUnknown`` or ``SessionUnknown``.
"""

from __future__ import annotations

from typing import Any

from workspaces.log.statements import statements
from workspaces.queries.sessions import require_session


def list_file_versions(workspace_id: str, session_id: str) -> list[dict[str, Any]]:
    """Every version of every file, in the order of the changes; this answer's names are capital."""
    require_session(workspace_id, session_id)
    with statements() as cursor:
        cursor.execute(
            "SELECT content, created_at, id, path, version FROM workspaces_fileversion"
            " WHERE session_id = %s ORDER BY position",
            [session_id],
        )
        return [
            {
                "Content": content,
                "CreatedAt": created_at // 1000,
                "ID": version_id,
                "Path": path,
                "SessionID": session_id,
                "UpdatedAt": created_at // 1000,
                "Version": version,
            }
            for content, created_at, version_id, path, version in cursor.fetchall()
        ]


def list_read_files(workspace_id: str, session_id: str) -> list[str]:
    require_session(workspace_id, session_id)
    with statements() as cursor:
        cursor.execute(
            "SELECT path FROM workspaces_fileread WHERE session_id = %s ORDER BY path",
            [session_id],
        )
        return [row[0] for row in cursor.fetchall()]


def read_last_read(workspace_id: str, session_id: str, path: str) -> int | None:
    """The moment in milliseconds, ``None`` for a file that the session has not read."""
    require_session(workspace_id, session_id)
    with statements() as cursor:
        cursor.execute(
            "SELECT read_at FROM workspaces_fileread WHERE session_id = %s AND path = %s",
            [session_id, path],
        )
        row = cursor.fetchone()
    return None if row is None else int(row[0])
