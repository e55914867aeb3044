"""Shares of users and workspaces in the places of the workers. Synchronous: call it in a write's transaction."""

from __future__ import annotations

from people.actions.audit import Act, record
from people.models import Share
from workspaces.access import Actor
from workspaces.log.transaction import Transaction


def set_share(tx: Transaction, share: Share, *, actor: Actor | None = None) -> None:
    """Stores a new or a changed share; it counts from the next claim on."""
    details = {"weight": share.weight, "max_running": share.max_running}
    _record(tx, share, actor, "set", details)
    share.save()


def delete_share(tx: Transaction, share: Share, *, actor: Actor | None = None) -> None:
    """Deletes a share: the user or workspace has the weight 1 and the limit of the settings."""
    _record(tx, share, actor, "deleted", {})
    Share.objects.filter(pk=share.pk).delete()


def _record(
    tx: Transaction, share: Share, actor: Actor | None, outcome: str, details: dict[str, int | None]
) -> None:
    record(
        tx,
        actor,
        Act.SET_SHARE,
        workspace_id=share.workspace_id or "",
        target=str(share),
        outcome=outcome,
        details=details,
    )
