"""Opens, changes and closes workspaces. ``agents`` decides when a workspace may close."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import PermissionMode, Workspace
from workspaces.placement.roots import SEPARATOR
from workspaces.queries.workspaces import require_open


@dataclass(frozen=True, slots=True)
class Opening:
    """A client's request to open a path, which is already resolved."""

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
    """Returns the path's workspace: unchanged if it is open, else opened with these values."""
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
    # After a 404 a client posts the workspace as it last received it, without environment.
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


def reopen_workspace(tx: Transaction, workspace_id: str) -> None:
    """Opens a closed workspace as it was, because one of its runs resumes."""
    tx.lock(workspace_id)
    workspace = Workspace.objects.get(pk=workspace_id)
    if workspace.is_open:
        return
    workspace.is_open, workspace.opened_at, workspace.closed_at = True, tx.now, None
    workspace.save(update_fields=["is_open", "opened_at", "closed_at"])
    tx.append(workspace_id, Kind.WORKSPACE_OPENED, {"workspace": facts_of(workspace)})


def close_workspace(tx: Transaction, workspace_id: str) -> None:
    """Closes a workspace: requests get 404. Its sessions stay for when its path is reopened."""
    tx.lock(workspace_id)
    Workspace.objects.filter(pk=workspace_id, is_open=True).update(is_open=False, closed_at=tx.now)
    tx.append(workspace_id, Kind.WORKSPACE_CLOSED, {"workspace_id": workspace_id})


def set_skip_permissions(tx: Transaction, workspace_id: str, *, skip: bool) -> None:
    """Sets the mode for older clients; keeps any mode that requests nothing if ``skip``."""
    if skip != Workspace.objects.filter(pk=workspace_id, skip_permissions=True).exists():
        mode = PermissionMode.YOLO if skip else PermissionMode.NORMAL
        set_permission_mode(tx, workspace_id, mode=mode)
    else:
        require_open(workspace_id)


def set_permission_mode(tx: Transaction, workspace_id: str, *, mode: PermissionMode) -> None:
    """Sets the permission mode; open permission and trust requests stay open.

    Raises ``WorkspaceUnknown``.
    """
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


def set_labels(tx: Transaction, workspace_id: str, labels: Collection[str]) -> None:
    """Sets the labels that a worker must have to claim the workspace's runs, in their order."""
    tx.lock(workspace_id)
    Workspace.objects.filter(pk=workspace_id).update(labels=SEPARATOR.join(labels))


def facts_of(workspace: Workspace) -> dict[str, object]:
    """Returns the workspace's fields for events, without its environment."""
    return {
        "id": workspace.pk,
        "path": workspace.path,
        "skip_permissions": workspace.skip_permissions,
        "permission_mode": str(workspace.permission_mode),
    }
