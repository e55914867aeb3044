"""Changes the states of runs, one function for each transition, and the prompts that wait.

A transition appends no event and checks no lease: its caller does, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import connection

from agents.runs.rows import CLAIMED, Claimed
from agents.states import CLAIMABLE, IN_PROGRESS, RunOutcome, RunState, Strategy, in_sql
from workspaces.log.transaction import Transaction
from workspaces.models import UNFINISHED_REWINDS

_CLAIMABLE = (
    f"SELECT r.id FROM agents_run r WHERE r.state IN {in_sql(CLAIMABLE)}"
    f" AND (r.state = '{RunState.READY}' OR NOT EXISTS (SELECT 1 FROM agents_run b"
    f" WHERE b.session_id = r.session_id AND (b.state IN {in_sql(IN_PROGRESS)}"
    f" OR (b.state = '{RunState.ACCEPTED}' AND b.accept_number < r.accept_number))))"
    # A rollback waits for the end of the child runs of the turn that it undoes.
    " AND NOT EXISTS (SELECT 1 FROM agents_run p WHERE p.session_id = r.session_id"
    f" AND p.state = '{RunState.ACCEPTED}' AND p.strategy = '{Strategy.ROLLBACK}'"
    " AND p.replaces IS NOT NULL AND p.rewind_id IS NULL)"
    # A rewind of the session restores files: its runs wait for the end.
    " AND NOT EXISTS (SELECT 1 FROM workspaces_rewind w WHERE w.session_id = r.session_id"
    f" AND w.state IN {in_sql(UNFINISHED_REWINDS)})"
    " ORDER BY r.id LIMIT %s"
)


def claim_runs(tx: Transaction, *, worker: str, lease_ms: int, limit: int) -> list[Claimed]:
    """Claims the next run of each session that has none in progress, at most ``limit`` runs.

    They get new fences, so that earlier holders cannot write.
    """
    suffix = " FOR UPDATE OF r SKIP LOCKED" if connection.features.has_select_for_update else ""
    keys = [key for (key,) in tx.fetch(_CLAIMABLE + suffix, [limit])]
    if not keys:
        return []
    marks = ", ".join(["%s"] * len(keys))
    tx.execute(
        f"UPDATE agents_run SET state = '{RunState.RUNNING}', worker = %s, fence = fence + 1,"
        f" lease_expires_at = %s WHERE id IN ({marks})",
        [worker, tx.now + lease_ms, *keys],
    )
    return _read_claimed(tx, keys)


def _read_claimed(tx: Transaction, keys: Sequence[int]) -> list[Claimed]:
    rows = tx.fetch(
        f"SELECT {CLAIMED.sql} FROM agents_run r"
        " JOIN workspaces_workspace w ON w.id = r.workspace_id"
        " JOIN workspaces_session s ON s.id = r.session_id"
        f" WHERE r.id IN ({', '.join(['%s'] * len(keys))})",
        keys,
    )
    return [CLAIMED.decode(values) for values in rows]


def renew_leases(tx: Transaction, *, worker: str, lease_ms: int) -> None:
    """Renews the leases of all runs that the worker holds."""
    tx.execute(
        "UPDATE agents_run SET lease_expires_at = %s"
        f" WHERE worker = %s AND state = '{RunState.RUNNING}'",
        [tx.now + lease_ms, worker],
    )


def expire_all_leases(tx: Transaction) -> None:
    """Expires all leases, at the start of a server that is alone on its data."""
    tx.execute(f"UPDATE agents_run SET lease_expires_at = 0 WHERE state = '{RunState.RUNNING}'", [])


def mark_started(tx: Transaction, key: int) -> None:
    """Stores when a running run has begun: its prompt is stored, and its next claim resumes it."""
    tx.execute("UPDATE agents_run SET started_at = %s WHERE id = %s", [tx.now, key])


def park(tx: Transaction, key: int) -> None:
    """Frees a running run from its worker until ``mark_ready``."""
    _release(tx, key, RunState.PARKED)


def release(tx: Transaction, key: int) -> None:
    """Frees a running run from its worker, for another worker to continue."""
    _release(tx, key, RunState.READY)


def _release(tx: Transaction, key: int, state: RunState) -> None:
    tx.execute(
        "UPDATE agents_run SET state = %s, worker = '', lease_expires_at = 0 WHERE id = %s",
        [state.value, key],
    )


def release_from_dead(tx: Transaction, key: int, *, lost: int = 1) -> None:
    """Frees a run from a worker that does not renew its lease. The new fence excludes it.

    ``lost``: is added to the workers that it has lost; 0 if its server stops regularly.
    """
    tx.execute(
        f"UPDATE agents_run SET state = '{RunState.READY}', worker = '', fence = fence + 1,"
        " lease_expires_at = 0, open_calls = '[]', call_outputs = NULL,"
        " lost_workers = COALESCE(lost_workers, 0) + %s WHERE id = %s",
        [lost, key],
    )


def mark_ready(tx: Transaction, key: int) -> None:
    """Makes a parked run ready. A run that is not parked yet finds the answer when it parks."""
    tx.execute(
        f"UPDATE agents_run SET state = '{RunState.READY}'"
        f" WHERE id = %s AND state = '{RunState.PARKED}'",
        [key],
    )


def mark_finished(
    tx: Transaction,
    key: int,
    *,
    outcome: RunOutcome,
    message_id: str,
    error: str,
    over_budget: str | None = None,
) -> None:
    """Finishes a run. ``over_budget``: JSON, for the outcome of this name."""
    tx.execute(
        f"UPDATE agents_run SET state = '{RunState.FINISHED}', outcome = %s, message_id = %s,"
        " error = %s, over_budget = %s, finished_at = %s, open_calls = '[]', call_outputs = NULL,"
        " lease_expires_at = 0"
        " WHERE id = %s",
        [outcome.value, message_id, error, over_budget, tx.now, key],
    )


def mark_folded(tx: Transaction, key: int, *, into: int) -> None:
    """Finishes an accepted run whose prompt another run takes."""
    tx.execute(
        f"UPDATE agents_run SET state = '{RunState.FINISHED}', outcome = '{RunOutcome.FOLDED}',"
        " folded_into_id = %s, started_at = %s, finished_at = %s WHERE id = %s",
        [into, tx.now, tx.now, key],
    )
    # A person who waits for the end of this prompt now waits for the end of that run.
    tx.execute(
        "UPDATE agents_run SET is_from_person = %s WHERE id = %s AND is_from_person = %s"
        " AND EXISTS (SELECT 1 FROM agents_run f WHERE f.id = %s AND f.is_from_person = %s)",
        [True, into, False, key, True],
    )


def withdraw_run(tx: Transaction, key: int) -> None:
    """Cancels this run alone. Its worker or the end of the run before it ends it."""
    tx.execute("UPDATE agents_run SET is_withdrawn = %s WHERE id = %s", [True, key])


def store_accept_numbers(tx: Transaction, numbers: Mapping[int, int]) -> None:
    """Exchanges the accept numbers of accepted runs of one session, given by key."""
    # No two runs may have the same number, not even between two statements.
    negative = "UPDATE agents_run SET accept_number = -accept_number WHERE id = %s"
    tx.cursor.executemany(negative, [(key,) for key in numbers])
    tx.cursor.executemany(
        "UPDATE agents_run SET accept_number = %s WHERE id = %s",
        [(number, key) for key, number in numbers.items()],
    )


def set_prompt(tx: Transaction, key: int, text: str, *, size: int) -> None:
    """Replaces the text of a prompt that waits. ``size``: by how many bytes it grows."""
    tx.execute(
        "UPDATE agents_run SET prompt = %s, size = size + %s WHERE id = %s", [text, size, key]
    )


def set_strategy(tx: Transaction, key: int, strategy: Strategy) -> None:
    tx.execute("UPDATE agents_run SET strategy = %s WHERE id = %s", [strategy.value, key])


def store_rollback(tx: Transaction, key: int, rewind_id: str) -> None:
    """Stores the rewind of a prompt that rolls back; without an id there was nothing to undo."""
    tx.execute("UPDATE agents_run SET rewind_id = %s WHERE id = %s", [rewind_id, key])
