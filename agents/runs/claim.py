"""Claiming runs: the next one of each session that no run holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from workspaces.log.transaction import Transaction

_CLAIMABLE = (
    "SELECT r.id FROM agents_run r WHERE r.state IN ('accepted', 'ready')"
    " AND (r.state = 'ready' OR NOT EXISTS (SELECT 1 FROM agents_run b"
    " WHERE b.session_id = r.session_id AND (b.state IN ('running', 'parked', 'ready')"
    " OR (b.state = 'accepted' AND b.accept_number < r.accept_number))))"
    " ORDER BY r.id LIMIT %s"
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that this worker holds, with what it needs to begin."""

    key: int
    fence: int
    workspace_id: str
    session_id: str
    run_id: str | None
    accept_number: int
    kind: str
    prompt: str
    path: str
    data_dir: str
    is_top_level: bool  # its session is nobody's child: a prompt may give it a title
    title: str  # its session's, as it is now
    context_tokens: int  # what its session's conversation takes of the window
    parent: int | None  # the run that waits for it
    errand: str  # JSON: what a child run is told beside its prompt


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
    rows = tx.fetch(
        "SELECT r.id, r.fence, r.workspace_id, r.session_id, r.run_id, r.accept_number, r.kind,"
        " r.prompt, w.path, w.data_dir, s.parent_session_id = '', s.title, s.context_tokens, r.parent_id, r.errand FROM agents_run r"
        " JOIN workspaces_workspace w ON w.id = r.workspace_id"
        f" JOIN workspaces_session s ON s.id = r.session_id WHERE r.id IN ({marks})",
        keys,
    )
    return [_claimed(row) for row in rows]


def _claimed(row: tuple[Any, ...]) -> Claimed:
    return replace(Claimed(*row), is_top_level=bool(row[10]))


def renew_leases(tx: Transaction, *, worker: str, lease_ms: int) -> None:
    """The worker lives: what it runs stays its own."""
    tx.execute(
        "UPDATE agents_run SET lease_expires_at = %s WHERE worker = %s AND state = 'running'",
        [tx.now + lease_ms, worker],
    )
