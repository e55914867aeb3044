"""Reading the queue. Synchronous: call through ``read``."""

from __future__ import annotations

from workspaces.storage.statements import statements


def queued_prompts(workspace_id: str, session_id: str) -> list[str]:
    """The texts of the prompts that wait behind another, in order."""
    with statements() as cursor:
        cursor.execute(
            "SELECT prompt FROM agents_run WHERE workspace_id = %s AND session_id = %s"
            " AND state = 'accepted' AND was_queued = %s AND kind = 'prompt' ORDER BY accept_number",
            [workspace_id, session_id, True],
        )
        return [row[0] for row in cursor.fetchall()]


def has_waiting_prompts(session_id: str) -> bool:
    """Whether a prompt waits there that asks for no run of its own."""
    with statements() as cursor:
        cursor.execute(
            "SELECT 1 FROM agents_run WHERE session_id = %s AND state = 'accepted'"
            " AND run_id IS NULL AND kind = 'prompt' LIMIT 1",
            [session_id],
        )
        return cursor.fetchone() is not None


def is_held(key: int, fence: int) -> bool:
    """Whether the claim with this fence still stands."""
    with statements() as cursor:
        cursor.execute(
            "SELECT 1 FROM agents_run WHERE id = %s AND fence = %s AND state = 'running'",
            [key, fence],
        )
        return cursor.fetchone() is not None


def is_workspace_busy(workspace_id: str) -> bool:
    """Whether any run of it is accepted, running or waiting."""
    with statements() as cursor:
        cursor.execute(
            "SELECT 1 FROM agents_run WHERE workspace_id = %s AND state <> 'finished' LIMIT 1",
            [workspace_id],
        )
        return cursor.fetchone() is not None


def cancelled_running(worker: str) -> list[tuple[int, int]]:
    """Key and fence of this worker's runs whose session was cancelled: for lost nudges."""
    with statements() as cursor:
        cursor.execute(
            "SELECT r.id, r.fence FROM agents_run r"
            " JOIN workspaces_session s ON s.id = r.session_id"
            " WHERE r.worker = %s AND r.state = 'running' AND s.cancel_mark >= r.accept_number",
            [worker],
        )
        return list(cursor.fetchall())


def expired_runs(now: int) -> list[tuple[int, str]]:
    """Key and workspace of the runs whose worker is gone."""
    with statements() as cursor:
        cursor.execute(
            "SELECT id, workspace_id FROM agents_run"
            " WHERE state = 'running' AND lease_expires_at < %s ORDER BY id LIMIT 500",
            [now],
        )
        return list(cursor.fetchall())
