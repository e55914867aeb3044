"""Reading workspaces that are open. A closed one is unknown to every endpoint.

Synchronous: called through ``read``, or in a write's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.statements import statements
from workspaces.models.workspace import PermissionMode

_COLUMNS = "id, path, data_dir, permission_mode, last_event"


@dataclass(frozen=True, slots=True)
class OpenWorkspace:
    id: str
    path: str
    data_dir: str
    permission_mode: str
    last_event: int

    @property
    def skip_permissions(self) -> bool:
        return self.permission_mode != PermissionMode.NORMAL


def read_open_workspace(workspace_id: str) -> OpenWorkspace:
    """Raises ``WorkspaceUnknown``."""
    with statements() as cursor:
        cursor.execute(
            f"SELECT {_COLUMNS} FROM workspaces_workspace WHERE id = %s AND is_open = %s",
            [workspace_id, True],
        )
        row = cursor.fetchone()
    if row is None:
        raise WorkspaceUnknown
    return _workspace(row)


def list_open_workspaces() -> list[OpenWorkspace]:
    """In the order in which they were opened."""
    with statements() as cursor:
        cursor.execute(
            f"SELECT {_COLUMNS} FROM workspaces_workspace WHERE is_open = %s"
            " ORDER BY opened_at, id",
            [True],
        )
        return [_workspace(row) for row in cursor.fetchall()]


def require_open(workspace_id: str) -> None:
    """Raises ``WorkspaceUnknown``."""
    with statements() as cursor:
        cursor.execute(
            "SELECT 1 FROM workspaces_workspace WHERE id = %s AND is_open = %s",
            [workspace_id, True],
        )
        if cursor.fetchone() is None:
            raise WorkspaceUnknown


def read_permission_mode(workspace_id: str) -> str:
    """Raises ``WorkspaceUnknown``. Asked many times a second: one indexed read."""
    with statements() as cursor:
        cursor.execute(
            "SELECT permission_mode FROM workspaces_workspace WHERE id = %s AND is_open = %s",
            [workspace_id, True],
        )
        row = cursor.fetchone()
    if row is None:
        raise WorkspaceUnknown
    return str(row[0])


def _workspace(row: Sequence[Any]) -> OpenWorkspace:
    return OpenWorkspace(row[0], row[1], row[2], row[3], row[4])
