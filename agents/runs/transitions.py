"""Changes the states of runs, one function for each transition, and the prompts that wait.

A transition appends no event and checks no lease: its caller does, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection

from agents.runs.claims.claim_order import (
    HAS_LIMITS,
    ClaimedHomes,
    ClaimedPlaces,
    Waiting,
    has_limits_of_settings,
    runs_in_turn,
    runs_waiting,
    runs_with_connections,
    runs_within_limits,
)
from agents.runs.rows import CLAIMED, QUEUED, Claimed, author_json
from agents.states import RunOutcome, RunState, Strategy
from workspaces.actions.processes import RegistrationLost
from workspaces.log.rows import placeholders
from workspaces.log.transaction import Transaction
from workspaces.models import NEVER_EXPIRES
from workspaces.placement.roots import WorkerScope

_SPARE = 10  # another worker may be claiming some of them


def claim_runs(
    tx: Transaction,
    *,
    worker: str,
    limit: int,
    scope: WorkerScope | None = None,
    places: ClaimedPlaces = ClaimedPlaces(),  # noqa: B008  immutable
    homes: ClaimedHomes | None = None,
) -> list[Claimed]:
    """Claims the next run of each session that has none in progress, at most ``limit`` runs.

    ``scope``: only runs of folders that the worker serves. ``homes``: only of workspaces whose home
    it is, or becomes.

    If more wait, they get places in the order of ``claim_order``. The runs get new fences, so that
    earlier holders cannot write. They are the worker's own as long as it is registered. Raises
    ``RegistrationLost``.
    """
    suffix = " FOR UPDATE OF r SKIP LOCKED" if connection.features.has_select_for_update else ""
    waiting = runs_waiting(scope, places, homes, now=tx.now)
    first = f"SELECT r.id, {HAS_LIMITS}, r.workspace_id {waiting.sql} ORDER BY r.id LIMIT %s"
    some = tx.fetch(first, [*waiting.values, 1])
    if not some:
        return []
    found: dict[int, str] = {}  # the workspaces of runs
    if some[0][1] or has_limits_of_settings():
        # No row of a run may be locked yet: the claim that is waited for may need it.
        keys = _lock(tx, runs_within_limits(tx, waiting, limit), limit, waiting, suffix)
    else:
        rows = tx.fetch(f"{first}{suffix}", [*waiting.values, limit])
        found = {key: workspace_id for key, _, workspace_id in rows}
        keys = list(found)
        if len(keys) == limit:  # then more may wait
            keys = _next_in_turn(tx, keys, waiting, suffix)
    keys = runs_with_connections(tx, keys, places.remote)
    if homes is not None:
        keys = _at_home(tx, keys, found, homes)
    if not keys:
        return []
    # The registration cannot be lost before this transaction is committed.
    lock = " FOR SHARE" if connection.features.has_select_for_update else ""
    claimed = tx.change(
        f"UPDATE agents_run SET state = '{RunState.RUNNING}', worker = %s, fence = fence + 1,"
        f" lease_expires_at = %s WHERE id IN ({placeholders(len(keys))})"
        " AND EXISTS (SELECT 1 FROM workspaces_registeredprocess p WHERE p.id = %s"
        f" AND p.is_lost = %s AND p.expires_at >= %s{lock})",
        [worker, NEVER_EXPIRES, *keys, worker, False, tx.now],
    )
    if not claimed:
        raise RegistrationLost
    return _read_claimed(tx, keys)


def _at_home(
    tx: Transaction, keys: list[int], found: Mapping[int, str], homes: ClaimedHomes
) -> list[int]:
    """Returns those of these runs whose workspaces have their home in the worker now."""
    others = [key for key in keys if key not in found]
    if others:
        sql = f"SELECT id, workspace_id FROM agents_run WHERE id IN ({placeholders(len(others))})"
        found = {**found, **dict(tx.fetch(sql, others))}
    return homes.take(tx, {key: found[key] for key in keys})


def _next_in_turn(tx: Transaction, oldest: list[int], waiting: Waiting, suffix: str) -> list[int]:
    limit = len(oldest)
    ordered = runs_in_turn(tx, waiting, limit + _SPARE)
    if set(ordered[:limit]) == set(oldest):
        return oldest
    return _lock(tx, ordered, limit, waiting, suffix)


def _lock(
    tx: Transaction, ordered: list[int], limit: int, waiting: Waiting, suffix: str
) -> list[int]:
    """Returns the first of these runs that no other worker is claiming."""
    if not ordered:
        return []
    # Rows in the order of turns cannot be locked at once: PostgreSQL refuses it for windows.
    positions = " ".join(f"WHEN {int(key)} THEN {place}" for place, key in enumerate(ordered))
    locked = tx.fetch(
        f"SELECT r.id {waiting.sql} AND r.id IN ({placeholders(len(ordered))})"
        f" ORDER BY CASE r.id {positions} END LIMIT %s{suffix}",
        [*waiting.values, *ordered, limit],
    )
    return [key for (key,) in locked]


def _read_claimed(tx: Transaction, keys: Sequence[int]) -> list[Claimed]:
    rows = tx.fetch(
        f"SELECT {CLAIMED.sql} FROM agents_run r"
        " JOIN workspaces_workspace w ON w.id = r.workspace_id"
        " JOIN workspaces_session s ON s.id = r.session_id"
        f" WHERE r.id IN ({placeholders(len(keys))})",
        keys,
    )
    return [CLAIMED.decode(values) for values in rows]


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
    has_replied: bool = False,
) -> None:
    """Finishes a run. ``over_budget``: JSON, for the outcome of this name.

    ``has_replied``: as ``count_step``, in the same statement.
    """
    counted = ", steps = COALESCE(steps, 0) + 1" if has_replied else ""
    tx.execute(
        f"UPDATE agents_run SET state = '{RunState.FINISHED}', outcome = %s, message_id = %s,"
        " error = %s, over_budget = %s, finished_at = %s, open_calls = '[]', call_outputs = NULL,"
        f" lease_expires_at = 0{counted} WHERE id = %s",
        [outcome.value, message_id, error, over_budget, tx.now, key],
    )


def mark_cancelled(tx: Transaction, ended: Mapping[int, str]) -> None:
    """Finishes cancelled runs that no worker has begun; ``ended``: their messages, by key."""
    tx.execute_many(
        f"UPDATE agents_run SET state = '{RunState.FINISHED}', outcome = '{RunOutcome.CANCELLED}',"
        " message_id = %s, finished_at = %s, lease_expires_at = 0 WHERE id = %s",
        [(message_id, tx.now, key) for key, message_id in ended.items()],
    )


def mark_removed(tx: Transaction, session_id: str, *, author: Mapping[str, Any] | None) -> None:
    """Cancels the queued runs of a session and gives them their outcome.

    An outcome before the end: they leave no messages, also if a worker ends them. ``author``: who cancels.
    """
    tx.execute(
        f"UPDATE agents_run AS r SET is_withdrawn = %s, outcome = '{RunOutcome.CANCELLED}',"
        f" cancelled_by = COALESCE(r.cancelled_by, %s) WHERE {QUEUED}",
        [True, author_json(author), session_id],
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
    tx.execute_many(negative, [(key,) for key in numbers])
    tx.execute_many(
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
