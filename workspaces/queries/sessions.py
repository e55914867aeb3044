"""Reads sessions in their wire form, without those that are being deleted.

Synchronous: call it through ``read``. Each function raises ``WorkspaceUnknown``
for a workspace that is not open.
"""

from __future__ import annotations

from typing import Any

from workspaces.log.errors import SessionUnknown
from workspaces.log.rows import SESSION_COLUMNS, SessionRow, session_wire
from workspaces.log.statements import statements
from workspaces.queries.workspaces import require_open

# Statements: every request for a session reads its row first, which by the ORM takes 194 µs instead
# of 11 (docs/where-we-leave-django.md).


def list_sessions(workspace_id: str) -> list[dict[str, Any]]:
    """Returns the workspace's top sessions, newest first, without child sessions."""
    require_open(workspace_id)
    with statements() as cursor:
        cursor.execute(
            f"SELECT {SESSION_COLUMNS} FROM workspaces_session WHERE workspace_id = %s"
            " AND parent_session_id = '' AND is_deleting = %s ORDER BY updated_at DESC, id",
            [workspace_id, False],
        )
        return [session_wire(SessionRow(*row)) for row in cursor.fetchall()]


def list_children(workspace_id: str, session_id: str) -> list[dict[str, Any]]:
    """Returns a session's child sessions. Raises ``SessionUnknown``."""
    require_session(workspace_id, session_id)
    with statements() as cursor:
        cursor.execute(
            f"SELECT {SESSION_COLUMNS} FROM workspaces_session WHERE workspace_id = %s"
            " AND parent_session_id = %s AND is_deleting = %s ORDER BY created_at, id",
            [workspace_id, session_id, False],
        )
        return [session_wire(SessionRow(*row)) for row in cursor.fetchall()]


def read_session(workspace_id: str, session_id: str) -> dict[str, Any]:
    """Returns a session. Raises ``SessionUnknown``, also for one of another workspace."""
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
    return session_wire(SessionRow(*row))


def require_session(workspace_id: str, session_id: str) -> None:
    """Raises ``SessionUnknown`` if the session does not exist."""
    read_session(workspace_id, session_id)
