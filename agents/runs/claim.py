"""Claims runs: the next run of each session that has no run at work. Renews the leases."""

from __future__ import annotations

from django.db import connection

from agents.runs.rows import Claimed, read_claimed
from workspaces.log.statements import statements
from workspaces.log.transaction import Transaction

_CLAIMABLE = (
    "SELECT r.id FROM agents_run r WHERE r.state IN ('accepted', 'ready')"
    " AND (r.state = 'ready' OR NOT EXISTS (SELECT 1 FROM agents_run b"
    " WHERE b.session_id = r.session_id AND (b.state IN ('running', 'parked', 'ready')"
    " OR (b.state = 'accepted' AND b.accept_number < r.accept_number))))"
    " ORDER BY r.id LIMIT %s"
)


def claim_runs(tx: Transaction, *, worker: str, lease_ms: int, limit: int) -> list[Claimed]:
    """Takes up to ``limit`` runs. Each fence is new: an earlier holder writes nothing more."""
    suffix = " FOR UPDATE OF r SKIP LOCKED" if connection.features.has_select_for_update else ""
    keys = [key for (key,) in tx.fetch(_CLAIMABLE + suffix, [limit])]
    if not keys:
        return []
    marks = ", ".join(["%s"] * len(keys))
    tx.execute(
        "UPDATE agents_run SET state = 'running', worker = %s, fence = fence + 1,"
        f" lease_expires_at = %s WHERE id IN ({marks})",
        [worker, tx.now + lease_ms, *keys],
    )
    return read_claimed(tx, keys)


def renew_leases(tx: Transaction, *, worker: str, lease_ms: int) -> None:
    """The worker lives: what it runs stays its own."""
    tx.execute(
        "UPDATE agents_run SET lease_expires_at = %s WHERE worker = %s AND state = 'running'",
        [tx.now + lease_ms, worker],
    )


_CLAIMS = "SELECT client_id, current_session_id FROM workspaces_clientclaim WHERE workspace_id = %s"


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


def busy_sessions(workspace_id: str, client_id: str = "") -> list[dict[str, str]]:
    """The sessions with a run that is accepted, running or waiting, as far as they concern the client.

    A client that looks at a session is concerned by that one alone, another client by its own
    prompts. Where nobody knows which client it is, by all.
    """
    with statements() as cursor:
        cursor.execute(_CLAIMS, [workspace_id])
        looking = dict(cursor.fetchall())
        if not client_id and len(looking) == 1:
            (client_id,) = looking
        where, params = "", []
        if current := looking.get(client_id):
            where, params = " AND r.session_id = %s", [current]
        elif client_id:
            where, params = " AND r.client_id = %s", [client_id]
        cursor.execute(
            "SELECT DISTINCT s.id, s.title FROM agents_run r"
            " JOIN workspaces_session s ON s.id = r.session_id"
            f" WHERE r.workspace_id = %s AND r.state <> 'finished'{where} LIMIT 20",
            [workspace_id, *params],
        )
        return [{"id": session_id, "title": title} for session_id, title in cursor.fetchall()]


def cancelled_running(worker: str) -> list[tuple[int, int]]:
    """Key and fence of this worker's runs that were cancelled: for lost nudges."""
    with statements() as cursor:
        cursor.execute(
            "SELECT r.id, r.fence FROM agents_run r"
            " JOIN workspaces_session s ON s.id = r.session_id"
            " WHERE r.worker = %s AND r.state = 'running'"
            " AND (s.cancel_mark >= r.accept_number OR r.is_withdrawn)",
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
