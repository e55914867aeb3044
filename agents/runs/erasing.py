"""What goes with a deleted session when its last run has ended: its rows, and the sessions below."""

from __future__ import annotations

from agents.runs.rows import unfinished_runs
from permissions.actions.requests import forget_session_permissions
from workspaces.actions.sessions import erase_session
from workspaces.log.session_rows import SESSION_COLUMNS as SESSION_COLUMNS
from workspaces.log.session_rows import session_of_row
from workspaces.log.transaction import Transaction


def erase_if_marked(tx: Transaction, workspace_id: str, session_id: str) -> None:
    """A session that was deleted while it ran goes when its last run has ended."""
    rows = tx.fetch(
        f"SELECT {SESSION_COLUMNS} FROM workspaces_session WHERE id = %s AND is_deleting = %s",
        [session_id, True],
    )
    if rows:
        forget_session_permissions(tx, session_id)
        tx.execute(
            "UPDATE agents_run SET parent_id = NULL WHERE parent_id IN"
            " (SELECT id FROM agents_run WHERE session_id = %s)",
            [session_id],
        )
        tx.execute(
            "DELETE FROM agents_subagent WHERE run_id IN"
            " (SELECT id FROM agents_run WHERE session_id = %s)",
            [session_id],
        )
        tx.execute("DELETE FROM agents_run WHERE session_id = %s", [session_id])
        erase_session(tx, workspace_id, session_of_row(rows[0]))
        _erase_below(tx, workspace_id, session_id)


def _erase_below(tx: Transaction, workspace_id: str, session_id: str) -> None:
    """What the session's calls sent for goes with it; what still runs goes at its end."""
    children = tx.fetch(
        "SELECT id FROM workspaces_session WHERE parent_session_id = %s", [session_id]
    )
    for (child_id,) in children:
        tx.execute("UPDATE workspaces_session SET is_deleting = %s WHERE id = %s", [True, child_id])
        if not unfinished_runs(tx, child_id):
            erase_if_marked(tx, workspace_id, child_id)
