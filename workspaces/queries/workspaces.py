"""Reads open workspaces. For every endpoint a closed workspace is unknown.

Synchronous: call it through ``read``, or in a write's transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from workspaces.log.errors import Refusal, WorkspaceUnknown
from workspaces.log.statements import statements
from workspaces.models import PermissionMode, Workspace
from workspaces.placement.remote_place import remote_place

# Statements: almost every request reads its workspace first, which by the ORM takes 194 µs instead
# of 11 (docs/where-we-leave-django.md).


class RemoteFolder(Refusal):
    """The folder of this workspace is on another machine, where only prompts can use it."""

    code = "remote_folder"
    status = 409


@dataclass(frozen=True, slots=True)
class OpenWorkspace:
    id: str
    path: str
    data_dir: str
    permission_mode: str
    last_event: int

    @property
    def folder(self) -> str:
        """The folder on this machine. Raises ``RemoteFolder`` if it is on another one."""
        if remote_place(self.path) is not None:
            raise RemoteFolder
        return self.path

    @property
    def skip_permissions(self) -> bool:
        return self.permission_mode != PermissionMode.NORMAL


_COLUMNS = ", ".join(field.name for field in fields(OpenWorkspace))


def read_open_workspace(workspace_id: str) -> OpenWorkspace:
    """Returns an open workspace. Raises ``WorkspaceUnknown``."""
    with statements() as cursor:
        cursor.execute(
            f"SELECT {_COLUMNS} FROM workspaces_workspace WHERE id = %s AND is_open = %s",
            [workspace_id, True],
        )
        row = cursor.fetchone()
    if row is None:
        raise WorkspaceUnknown
    return OpenWorkspace(*row)


def find_workspace(path: str) -> str:
    """Returns the id of the workspace of a resolved path, open or closed; empty if there is none."""
    return Workspace.objects.filter(path=path).values_list("id", flat=True).first() or ""


def list_open_workspaces() -> list[OpenWorkspace]:
    """Returns the open workspaces in the order of their opening."""
    with statements() as cursor:
        cursor.execute(
            f"SELECT {_COLUMNS} FROM workspaces_workspace WHERE is_open = %s"
            " ORDER BY opened_at, id",
            [True],
        )
        return [OpenWorkspace(*row) for row in cursor.fetchall()]


def require_open(workspace_id: str) -> None:
    """Raises ``WorkspaceUnknown`` if the workspace is not open."""
    with statements() as cursor:
        cursor.execute(
            "SELECT 1 FROM workspaces_workspace WHERE id = %s AND is_open = %s",
            [workspace_id, True],
        )
        if cursor.fetchone() is None:
            raise WorkspaceUnknown


def read_permission_mode(workspace_id: str) -> str:
    """Returns the permission mode. Raises ``WorkspaceUnknown``.

    Called many times a second, so it is a single indexed read.
    """
    with statements() as cursor:
        cursor.execute(
            "SELECT permission_mode FROM workspaces_workspace WHERE id = %s AND is_open = %s",
            [workspace_id, True],
        )
        row = cursor.fetchone()
    if row is None:
        raise WorkspaceUnknown
    (mode,) = row
    return str(mode)
