"""When a workspace closes: nobody claims it and nothing runs or waits to run in it."""

from __future__ import annotations

from workspaces.actions.claims import has_claims
from workspaces.actions.workspaces import close_workspace
from workspaces.storage.transaction import Transaction


def close_if_left(tx: Transaction, workspace_id: str) -> bool:
    """Closes the workspace if it may close. Parked runs hold nothing: they return with it."""
    tx.lock(workspace_id)
    if has_claims(workspace_id):
        return False
    working = tx.fetch(
        "SELECT 1 FROM agents_run WHERE workspace_id = %s"
        " AND state IN ('accepted', 'running', 'ready') LIMIT 1",
        [workspace_id],
    )
    if working:
        return False
    is_open = tx.fetch("SELECT is_open FROM workspaces_workspace WHERE id = %s", [workspace_id])
    if not is_open or not is_open[0][0]:
        return False
    close_workspace(tx, workspace_id)
    return True
