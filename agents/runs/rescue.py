"""Rescues runs whose worker died: hands them over between steps, and settles them otherwise."""

from __future__ import annotations

from agents.models import RunState
from agents.runs.finish import close_session_work, settle_cancelled, settle_interrupted
from agents.runs.rows import RunRow, read_runs
from workspaces.log.transaction import Transaction


def rescue_run(tx: Transaction, key: int, *, expired_before: int) -> str:
    """Returns what was done: "ready", "interrupted", "cancelled", or "" if it is held again."""
    rows = read_runs(
        tx, "r.id = %s AND r.state = 'running' AND r.lease_expires_at < %s", [key, expired_before]
    )
    if not rows:
        return ""
    run = rows[0]
    if run.is_cancelled:
        settle_cancelled(tx, run)
        outcome = "cancelled"
    elif run.open_calls or _has_open_reply(tx, run):
        settle_interrupted(tx, run)
        outcome = "interrupted"
    else:
        # Between two steps: another worker goes on. The new fence shuts the old one out.
        tx.execute(
            "UPDATE agents_run SET state = %s, worker = '', fence = fence + 1,"
            " lease_expires_at = 0 WHERE id = %s",
            [RunState.READY.value, run.key],
        )
        return "ready"
    close_session_work(tx, run.workspace_id, run.session_id)
    return outcome


def _has_open_reply(tx: Transaction, run: RunRow) -> bool:
    return bool(
        tx.fetch(
            "SELECT 1 FROM workspaces_message WHERE session_id = %s AND run_key = %s"
            " AND is_finished = %s LIMIT 1",
            [run.session_id, run.key, False],
        )
    )


def expire_all_leases(tx: Transaction) -> None:
    """At the start of a server that is alone on its data: no earlier worker lives."""
    tx.execute("UPDATE agents_run SET lease_expires_at = 0 WHERE state = 'running'", [])
