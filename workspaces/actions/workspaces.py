"""Opening, changing and closing a workspace's row. Who may close it is decided in ``agents``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import Workspace
from workspaces.models.workspace import PermissionMode
from workspaces.queries.workspaces import require_open


@dataclass(frozen=True, slots=True)
class Opening:
    """What a client asks for when it opens a path (resolved already)."""

    path: str
    data_dir: str
    permission_mode: PermissionMode = PermissionMode.NORMAL
    debug: bool = False
    channels: Sequence[str] = ()
    sealed_env: str = field(default="", repr=False)

    @property
    def skip_permissions(self) -> bool:
        return self.permission_mode is not PermissionMode.NORMAL


def open_workspace(tx: Transaction, opening: Opening) -> Workspace:
    """The path's workspace: the open one as its first creator made it, else opened anew."""
    workspace = Workspace.objects.filter(path=opening.path).first()
    if workspace is None:
        workspace = Workspace.objects.create(
            path=opening.path,
            data_dir=opening.data_dir,
            skip_permissions=opening.skip_permissions,
            permission_mode=opening.permission_mode,
            debug=opening.debug,
            channels=list(opening.channels),
            sealed_env=opening.sealed_env,
            created_at=tx.now,
            opened_at=tx.now,
        )
        tx.append(workspace.pk, Kind.WORKSPACE_OPENED, {"workspace": facts_of(workspace)})
        return workspace
    tx.lock(workspace.pk)
    workspace.refresh_from_db()
    if workspace.is_open:
        if opening.sealed_env and not workspace.sealed_env:
            workspace.sealed_env = opening.sealed_env
            workspace.save(update_fields=["sealed_env"])
        return workspace
    workspace.is_open = True
    workspace.opened_at = tx.now
    workspace.closed_at = None
    workspace.data_dir = opening.data_dir
    workspace.skip_permissions = opening.skip_permissions
    workspace.permission_mode = opening.permission_mode
    workspace.debug = opening.debug
    workspace.channels = list(opening.channels)
    # A client that was told 404 posts what it last saw, which holds no environment.
    workspace.sealed_env = opening.sealed_env or workspace.sealed_env
    workspace.save(
        update_fields=[
            "is_open",
            "opened_at",
            "closed_at",
            "data_dir",
            "skip_permissions",
            "permission_mode",
            "debug",
            "channels",
            "sealed_env",
        ]
    )
    tx.append(workspace.pk, Kind.WORKSPACE_OPENED, {"workspace": facts_of(workspace)})
    return workspace


def close_workspace(tx: Transaction, workspace_id: str) -> None:
    """404 from now on; its sessions stay and are found again when its path is opened."""
    tx.lock(workspace_id)
    Workspace.objects.filter(pk=workspace_id, is_open=True).update(is_open=False, closed_at=tx.now)
    tx.append(workspace_id, Kind.WORKSPACE_CLOSED, {"workspace_id": workspace_id})


def set_skip_permissions(tx: Transaction, workspace_id: str, *, skip: bool) -> None:
    """What older clients say; one that asks for nothing in its own way stays as it is."""
    if skip != Workspace.objects.filter(pk=workspace_id, skip_permissions=True).exists():
        mode = PermissionMode.YOLO if skip else PermissionMode.NORMAL
        set_permission_mode(tx, workspace_id, mode=mode)
    else:
        require_open(workspace_id)


def set_permission_mode(tx: Transaction, workspace_id: str, *, mode: PermissionMode) -> None:
    """Raises ``WorkspaceUnknown``. Open requests stay open, and so do those about trust."""
    tx.lock(workspace_id)
    workspace = Workspace.objects.filter(pk=workspace_id, is_open=True).first()
    if workspace is None:
        raise WorkspaceUnknown
    if workspace.permission_mode == mode:
        return
    workspace.permission_mode = mode
    workspace.skip_permissions = mode is not PermissionMode.NORMAL
    workspace.save(update_fields=["permission_mode", "skip_permissions"])
    tx.append(workspace_id, Kind.WORKSPACE_UPDATED, {"workspace": facts_of(workspace)})


def facts_of(workspace: Workspace) -> dict[str, object]:
    """What events tell of a workspace: nothing of its environment."""
    return {
        "id": workspace.pk,
        "path": workspace.path,
        "skip_permissions": workspace.skip_permissions,
        "permission_mode": str(workspace.permission_mode),
    }
