"""Reading sessions as the wire shows them. One that is being deleted is gone already.

Synchronous: called through ``read``. Each function raises ``WorkspaceUnknown``
for a workspace that is not open.
"""

from __future__ import annotations

from typing import Any

from workspaces.log.errors import SessionUnknown
from workspaces.log.rows import SESSION_COLUMNS, session_of_row
from workspaces.log.statements import statements
from workspaces.queries.workspaces import require_open


def list_sessions(workspace_id: str) -> list[dict[str, Any]]:
    """The workspace's own sessions, the newest first; children belong to their parents."""
    require_open(workspace_id)
    with statements() as cursor:
        cursor.execute(
            f"SELECT {SESSION_COLUMNS} FROM workspaces_session WHERE workspace_id = %s"
            " AND parent_session_id = '' AND is_deleting = %s ORDER BY updated_at DESC, id",
            [workspace_id, False],
        )
        return [session_of_row(row) for row in cursor.fetchall()]


def list_children(workspace_id: str, session_id: str) -> list[dict[str, Any]]:
    """The sessions that this one's tools started. Raises ``SessionUnknown``."""
    require_session(workspace_id, session_id)
    with statements() as cursor:
        cursor.execute(
            f"SELECT {SESSION_COLUMNS} FROM workspaces_session WHERE workspace_id = %s"
            " AND parent_session_id = %s AND is_deleting = %s ORDER BY created_at, id",
            [workspace_id, session_id, False],
        )
        return [session_of_row(row) for row in cursor.fetchall()]


def read_session(workspace_id: str, session_id: str) -> dict[str, Any]:
    """Raises ``SessionUnknown``, for a session of another workspace too."""
    require_open(workspace_id)
    with statements() as cursor:
        cursor.execute(
            f"SELECT {SESSION_COLUMNS} FROM workspaces_session"
            " WHERE id = %s AND workspace_id = %s AND is_deleting = %s",
            [session_id, workspace_id, False],
        )
        row = cursor.fetchone()
    if row is None:
        raise SessionUnknown
    return session_of_row(row)


def require_session(workspace_id: str, session_id: str) -> None:
    """Raises ``SessionUnknown``."""
    read_session(workspace_id, session_id)
