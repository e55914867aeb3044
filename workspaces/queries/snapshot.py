"""A workspace's state with the number of the log at which it is true.

Folding the events after that number into it gives every later state.
Synchronous: called through ``read``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workspaces.log.rows import SESSION_COLUMNS, session_of_row, without_empty
from workspaces.log.statements import statements
from workspaces.queries.messages import messages_of_session
from workspaces.queries.moment import one_moment
from workspaces.queries.sessions import require_session
from workspaces.queries.workspaces import read_open_workspace

# Reads fields of a workspace's snapshot that another app owns.
ReadMore = Callable[[str], Mapping[str, Any]]


def read_workspace_snapshot(
    workspace_id: str, *, session_id: str = "", more: Iterable[ReadMore] = ()
) -> dict[str, Any]:
    """All sessions, the messages of one, and what ``more`` reads at the same moment.

    Raises ``WorkspaceUnknown``, ``SessionUnknown``.
    """
    with one_moment():
        workspace = read_open_workspace(workspace_id)
        snapshot: dict[str, Any] = {
            "number": workspace.last_event,
            "workspace": {
                "id": workspace.id,
                "path": workspace.path,
                "skip_permissions": workspace.skip_permissions,
                "permission_mode": workspace.permission_mode,
            },
            "sessions": _sessions(workspace_id),
        }
        if session_id:
            require_session(workspace_id, session_id)
            snapshot["messages"] = messages_of_session(session_id)
        for read_more in more:
            snapshot |= read_more(workspace_id)
    return snapshot


def _sessions(workspace_id: str) -> list[dict[str, Any]]:
    # With those whose deletion waits for a run's end: the log has not told of it yet.
    with statements() as cursor:
        cursor.execute(
            f"SELECT {SESSION_COLUMNS} FROM workspaces_session WHERE workspace_id = %s"
            " ORDER BY created_at, id",
            [workspace_id],
        )
        return [without_empty(session_of_row(row)) for row in cursor.fetchall()]
