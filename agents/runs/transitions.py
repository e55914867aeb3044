"""Changes the states of runs, one function for each transition, and the prompts that wait.

A transition appends no event and checks no lease: its caller does, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connection

from agents.runs.rows import CLAIMED, QUEUED, Claimed, author_json
from agents.states import CLAIMABLE, IN_PROGRESS, RunOutcome, RunState, Strategy, in_sql
from workspaces.actions.processes import RegistrationLost
from workspaces.log.rows import placeholders
from workspaces.log.transaction import Transaction
from workspaces.models import NEVER_EXPIRES, UNFINISHED_REWINDS
from workspaces.placement.roots import WorkerScope

_WAITING = (
    f"FROM agents_run r WHERE r.state IN {in_sql(CLAIMABLE)}"
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
)
_OLDEST = "SELECT r.id {waiting} ORDER BY r.id LIMIT %s"
_USER = "COALESCE(r.author ->> 'user_id', '')"
# The runs in the order of their turns. A user's next turn comes after as many as the user has
# running runs; within the user's turns, the same holds for each workspace. What has begun comes
# before what is new.
_IN_TURNS = (
    f"WITH running AS (SELECT {_USER} AS user_id, r.workspace_id, COUNT(*) AS runs"
    f" FROM agents_run r WHERE r.state = '{RunState.RUNNING}' GROUP BY 1, 2),"
    " users AS (SELECT user_id, SUM(runs) AS runs FROM running GROUP BY user_id),"
    f" waiting AS (SELECT r.id, {_USER} AS user_id, r.workspace_id, CASE WHEN"
    f" r.state = '{RunState.READY}' OR r.parent_id IS NOT NULL THEN 0 ELSE 1 END AS is_new"
    " {waiting}),"
    " turns AS (SELECT n.id, n.user_id, COALESCE(g.runs, 0) + ROW_NUMBER() OVER ("
    "PARTITION BY n.user_id, n.workspace_id ORDER BY n.is_new, n.id) AS turn"
    " FROM waiting n LEFT JOIN running g"
    " ON g.user_id = n.user_id AND g.workspace_id = n.workspace_id)"
    " SELECT t.id FROM turns t LEFT JOIN users u ON u.user_id = t.user_id"
    " ORDER BY COALESCE(u.runs, 0) + ROW_NUMBER() OVER ("
    "PARTITION BY t.user_id ORDER BY t.turn, t.id), t.id LIMIT %s"
)
_SPARE = 10  # another worker may be claiming some of them


def claim_runs(
    tx: Transaction, *, worker: str, limit: int, scope: WorkerScope | None = None
) -> list[Claimed]:
    """Claims the next run of each session that has none in progress, at most ``limit`` runs.

    ``scope``: only runs of workspaces that the worker serves.

    If more wait, users get places in turns, and so do the workspaces of a user. The runs get new
    fences, so that earlier holders cannot write. They are the worker's own as long as it is
    registered. Raises ``RegistrationLost``.
    """
    suffix = " FOR UPDATE OF r SKIP LOCKED" if connection.features.has_select_for_update else ""
    waiting = _waiting(scope)
    oldest = _OLDEST.format(waiting=waiting.sql)
    keys = [key for (key,) in tx.fetch(oldest + suffix, [*waiting.values, limit])]
    if len(keys) == limit:  # then more may wait
        keys = _next_in_turn(tx, keys, waiting, suffix)
    if not keys:
        return []
    # The registration cannot be lost before this transaction is committed.
    lock = " FOR SHARE" if connection.features.has_select_for_update else ""
    claimed = tx.execute(
        f"UPDATE agents_run SET state = '{RunState.RUNNING}', worker = %s, fence = fence + 1,"
        f" lease_expires_at = %s WHERE id IN ({placeholders(len(keys))})"
        " AND EXISTS (SELECT 1 FROM workspaces_registeredprocess p WHERE p.id = %s"
        f" AND p.is_lost = %s AND p.expires_at >= %s{lock})",
        [worker, NEVER_EXPIRES, *keys, worker, False, tx.now],
    )
    if not claimed:
        raise RegistrationLost
    return _read_claimed(tx, keys)


class _Waiting(NamedTuple):
    sql: str
    values: list[Any]


def _waiting(scope: WorkerScope | None) -> _Waiting:
    if scope is None:
        return _Waiting(_WAITING, [])
    condition, values = scope.condition("w")
    return _Waiting(
        f"{_WAITING} AND EXISTS (SELECT 1 FROM workspaces_workspace w"
        f" WHERE w.id = r.workspace_id AND {condition})",
        values,
    )


def _next_in_turn(tx: Transaction, oldest: list[int], waiting: _Waiting, suffix: str) -> list[int]:
    limit = len(oldest)
    turns = _IN_TURNS.format(waiting=waiting.sql)
    ordered = [key for (key,) in tx.fetch(turns, [*waiting.values, limit + _SPARE])]
    if set(ordered[:limit]) == set(oldest):
        return oldest
    # Rows in the order of turns cannot be locked at once: PostgreSQL refuses it for windows.
    places = " ".join(f"WHEN {int(key)} THEN {place}" for place, key in enumerate(ordered))
    locked = tx.fetch(
        f"SELECT r.id {waiting.sql} AND r.id IN ({placeholders(len(ordered))})"
        f" ORDER BY CASE r.id {places} END LIMIT %s{suffix}",
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
) -> None:
    """Finishes a run. ``over_budget``: JSON, for the outcome of this name."""
    tx.execute(
        f"UPDATE agents_run SET state = '{RunState.FINISHED}', outcome = %s, message_id = %s,"
        " error = %s, over_budget = %s, finished_at = %s, open_calls = '[]', call_outputs = NULL,"
        " lease_expires_at = 0"
        " WHERE id = %s",
        [outcome.value, message_id, error, over_budget, tx.now, key],
    )


def mark_cancelled(tx: Transaction, ended: Mapping[int, str]) -> None:
    """Finishes cancelled runs that no worker has begun; ``ended``: their messages, by key."""
    tx.cursor.executemany(
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
