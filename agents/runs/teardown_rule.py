"""When a workspace closes: nobody claims it and nothing runs or waits to run in it."""

from __future__ import annotations

from workspaces.actions.workspaces import close_workspace
from workspaces.log.transaction import Transaction


def close_if_left(tx: Transaction, workspace_id: str) -> bool:
    """Closes the workspace if it may close. Parked runs hold nothing: they return with it."""
    tx.lock(workspace_id)
    # Asked at the end of every run: one statement, answered by two indexes.
    closable = tx.fetch(
        "SELECT 1 FROM workspaces_workspace w WHERE w.id = %s AND w.is_open = %s"
        " AND NOT EXISTS (SELECT 1 FROM workspaces_clientclaim c WHERE c.workspace_id = w.id)"
        " AND NOT EXISTS (SELECT 1 FROM agents_run r WHERE r.workspace_id = w.id"
        " AND r.state IN ('accepted', 'running', 'ready'))",
        [workspace_id, True],
    )
    if not closable:
        return False
    close_workspace(tx, workspace_id)
    return True
