"""The order in which runs that wait get the next places of workers, and who may have no more.

Users get places in turns, and so do the workspaces of a user: a user's next turn comes after as
many as the user has running runs, and with a weight of 2 twice as often. Interactive prompts come
before scheduled ones, until those have waited long enough. What has begun comes before what is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection

from agents.states import CLAIMABLE, IN_PROGRESS, RunState, Strategy, in_sql
from workspaces.actions.processes import BINDS, overflowing_homes, take_homes
from workspaces.log.rows import placeholders
from workspaces.log.statements import statements
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.models import UNFINISHED_REWINDS
from workspaces.placement.roots import WorkerScope

# The runs ``r`` that a worker may claim: of each session the first one, if none is in progress.
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
# The weights and limits of users and workspaces. A sub-agent's process has no table of users.
_SHARES = (
    "people_share"
    if "people" in settings.INSTALLED_APPS
    else "(SELECT '' AS user_id, '' AS workspace_id, 1 AS weight, NULL AS max_running WHERE 1 = 0)"
)
HAS_LIMITS = f"EXISTS (SELECT 1 FROM {_SHARES} s WHERE s.max_running IS NOT NULL)"
_USER = "COALESCE(r.author ->> 'user_id', '')"
_RUNNING = (
    f"SELECT {_USER} AS user_id, r.workspace_id, COUNT(*) AS runs FROM agents_run r"
    f" WHERE r.state = '{RunState.RUNNING}' GROUP BY 1, 2"
)
_IN_TURNS = (
    f"WITH running AS ({_RUNNING}),"
    " users AS (SELECT user_id, SUM(runs) AS runs FROM running GROUP BY user_id),"
    f" waiting AS (SELECT r.id, {_USER} AS user_id, r.workspace_id, CASE WHEN"
    f" r.state = '{RunState.READY}' OR r.parent_id IS NOT NULL THEN 0 ELSE 1 END AS is_new,"
    f" CASE WHEN r.is_scheduled AND r.state = '{RunState.ACCEPTED}' AND r.accepted_at > %s"
    f" THEN 1 ELSE 0 END AS is_later "
    "{waiting}),"
    " turns AS (SELECT n.id, n.user_id, n.workspace_id, n.is_later, (COALESCE(g.runs, 0)"
    " + ROW_NUMBER() OVER (PARTITION BY n.user_id, n.workspace_id"
    " ORDER BY n.is_later, n.is_new, n.id)) * 1.0 / COALESCE(s.weight, 1) AS turn"
    " FROM waiting n LEFT JOIN running g"
    " ON g.user_id = n.user_id AND g.workspace_id = n.workspace_id"
    f" LEFT JOIN {_SHARES} s ON s.workspace_id = n.workspace_id)"
    " SELECT t.id, t.user_id, t.workspace_id FROM turns t"
    " LEFT JOIN users u ON u.user_id = t.user_id"
    f" LEFT JOIN {_SHARES} s ON CAST(s.user_id AS TEXT) = t.user_id"
    " ORDER BY t.is_later, (COALESCE(u.runs, 0) + ROW_NUMBER() OVER (PARTITION BY t.user_id"
    " ORDER BY t.is_later, t.turn, t.id)) * 1.0 / COALESCE(s.weight, 1), t.id"
)
_HOMES, _PROCESSES = "workspaces_workspacehome", "workspaces_registeredprocess"
# How long a run without a home waits for a worker that is the home of fewer workspaces.
PATIENCE_MS = 1_000
# Of all servers on one database: who claims with limits sees what the one before has claimed.
_CLAIMS_LOCK = 0x6372757368


class Waiting(NamedTuple):
    """The runs ``r`` that a worker may claim, after the columns of a SELECT."""

    sql: str
    values: list[Any]


class ClaimedPlaces(NamedTuple):
    """Whose runs a process claims: those of folders, and of remote workspaces."""

    folders: bool = True
    # The paths of those whose worker is connected to the process, with its free connections.
    remote: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class ClaimedHomes:
    """What a worker has read of the homes of workspaces when it claims."""

    worker: str
    held: Set[str] = frozenset()  # workspaces whose home it is, as far as it remembers
    peers: Collection[str] = ()  # live workers that serve all that it serves
    is_ahead: bool = True  # may have more homes than one of them, which then is looked up
    has_dropped: bool = False  # runs of workspaces whose home it was not to become
    guests: Set[str] = frozenset()  # workspaces whose home is full, and another worker

    def condition(self, now: int) -> tuple[str, list[Any]]:
        """Returns SQL that is true for a run ``r`` that may be claimed here.

        What has no home waits a moment for a worker that is the home of fewer workspaces. A claim
        takes 2.2 ms instead of 1.8 (`python -m tests.bench.queues --database postgresql`).
        """
        elsewhere = (
            f"NOT EXISTS (SELECT 1 FROM {_HOMES} h JOIN {_PROCESSES} p ON p.id = h.process_id"
            " WHERE h.workspace_id = r.workspace_id AND h.process_id <> %s AND NOT h.is_overflowing"
            f" AND {BINDS})"
        )
        if not self.peers or not self.is_ahead:
            return elsewhere, [self.worker]
        own = (
            f"SELECT 1 FROM {_HOMES} h WHERE h.workspace_id = r.workspace_id AND h.process_id = %s"
        )
        count = f"(SELECT COUNT(*) FROM {_HOMES} h WHERE h.process_id = %s)"
        fewest = (
            f"(SELECT MIN(c.homes) FROM (SELECT (SELECT COUNT(*) FROM {_HOMES} h"
            f" WHERE h.process_id = p.id) AS homes FROM {_PROCESSES} p WHERE {BINDS}"
            f" AND p.runs < p.most_runs AND p.id IN ({placeholders(len(self.peers))})) c)"
        )
        return (
            f"{elsewhere} AND (r.accepted_at <= %s OR EXISTS ({own})"
            f" OR NOT COALESCE({count} > {fewest}, FALSE))",
            [self.worker, now - PATIENCE_MS, self.worker, self.worker, *self.peers],
        )

    def take(self, tx: Transaction, runs: Mapping[int, str]) -> list[int]:
        """Makes the worker the home of these runs' workspaces; returns those that it may claim.

        ``runs``: the workspaces of runs, in order. The other workers get their share of what has
        no home. Where the home overflows, it stays the home.
        """
        new = [each for each in dict.fromkeys(runs.values()) if each not in self.held]
        share = new[: -(-len(new) // (1 + len(self.peers)))]
        taken = take_homes(tx, self.worker, share)
        self.guests = overflowing_homes(
            tx, self.worker, [each for each in new if each not in taken]
        )
        allowed = self.held | taken | self.guests
        found = [key for key, each in runs.items() if each in allowed]
        self.has_dropped = len(found) < len(runs)
        return found


def runs_waiting(
    scope: WorkerScope | None,
    places: ClaimedPlaces,
    homes: ClaimedHomes | None = None,
    *,
    now: int = 0,
) -> Waiting:
    """``scope``: only runs of folders that the worker serves. ``homes``: and that it may claim."""
    clauses: list[str] = []
    values: list[Any] = []
    if places.folders:
        condition, values = scope.condition("w") if scope is not None else ("1 = 1", [])
        if homes is not None:
            free, more = homes.condition(now)
            condition, values = f"{condition} AND {free}", [*values, *more]
        clauses.append(f"SUBSTR(w.path, 1, 1) = '/' AND {condition}")
    if places.remote:
        clauses.append(f"w.path IN ({placeholders(len(places.remote))})")
        values = [*values, *places.remote]
    return Waiting(
        f"{_WAITING} AND EXISTS (SELECT 1 FROM workspaces_workspace w"
        f" WHERE w.id = r.workspace_id AND ({' OR '.join(clauses)}))",
        values,
    )


def runs_with_connections(tx: Transaction, keys: list[int], remote: Mapping[str, int]) -> list[int]:
    """Returns those of these runs that need no connection of a remote worker, or have a free one.

    The others wait unclaimed: claimed ones would take the places of other runs.
    """
    if not keys or not remote:
        return keys
    paths = dict(
        tx.fetch(
            "SELECT r.id, w.path FROM agents_run r JOIN workspaces_workspace w"
            f" ON w.id = r.workspace_id WHERE r.id IN ({placeholders(len(keys))})",
            keys,
        )
    )
    free = Counter(remote)
    found: list[int] = []
    for key in keys:
        if paths[key] in remote:
            if not free[paths[key]]:
                continue
            free[paths[key]] -= 1
        found.append(key)
    return found


def runs_in_turn(tx: Transaction, waiting: Waiting, limit: int) -> list[int]:
    """Returns the first runs that wait, in the order of their turns."""
    sql = _IN_TURNS.format(waiting=waiting.sql)
    rows = tx.fetch(f"{sql} LIMIT %s", [_scheduled_since(tx.now), *waiting.values, limit])
    return [key for key, _, _ in rows]


def has_limits_of_settings() -> bool:
    return bool(settings.CRUSH_MAX_RUNNING_PER_USER or settings.CRUSH_MAX_RUNNING_PER_WORKSPACE)


def runs_within_limits(tx: Transaction, waiting: Waiting, limit: int) -> list[int]:
    """Returns the first runs that wait and whose users and workspaces may have another run.

    Other workers wait for the end of the transaction before they look, so no limit is exceeded.
    """
    if connection.vendor == "postgresql":
        tx.execute("SELECT pg_advisory_xact_lock(%s)", [_CLAIMS_LOCK])
    limits = _Limits.read(tx.fetch)
    found: list[int] = []
    sql = _IN_TURNS.format(waiting=waiting.sql)
    values = [_scheduled_since(tx.now), *waiting.values]
    for key, user_id, workspace_id in tx.fetch(sql, values):
        if limits.take(user_id, workspace_id):
            found.append(key)
            if len(found) == limit:
                break
    return found


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many running runs users and workspaces may have, and have."""

    most_of_users: dict[str, int] = field(default_factory=dict)
    most_of_workspaces: dict[str, int] = field(default_factory=dict)
    users: Counter[str] = field(default_factory=Counter)
    workspaces: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, fetch: Callable[[str, list[Any]], list[Any]]) -> _Limits:
        limits = cls()
        for user_id, workspace_id, most in fetch(
            f"SELECT user_id, workspace_id, max_running FROM {_SHARES} s"
            " WHERE max_running IS NOT NULL",
            [],
        ):
            if workspace_id is not None:
                limits.most_of_workspaces[workspace_id] = most
            else:
                limits.most_of_users[str(user_id)] = most
        for user_id, workspace_id, runs in fetch(_RUNNING, []):
            limits.users[user_id] += runs
            limits.workspaces[workspace_id] += runs
        return limits

    def take(self, user_id: str, workspace_id: str) -> bool:
        """Counts another run, if it may run."""
        if self.is_reached(user_id, workspace_id):
            return False
        self.users[user_id] += 1
        self.workspaces[workspace_id] += 1
        return True

    def is_reached(self, user_id: str, workspace_id: str) -> bool:
        user = self.most_of_users.get(user_id, settings.CRUSH_MAX_RUNNING_PER_USER)
        workspace = self.most_of_workspaces.get(
            workspace_id, settings.CRUSH_MAX_RUNNING_PER_WORKSPACE
        )
        # A limit of 0 in the settings is none; one of a person or a workspace is at least 1.
        is_of_user = bool(user) and self.users[user_id] >= user
        return is_of_user or (bool(workspace) and self.workspaces[workspace_id] >= workspace)


def runs_at_limits() -> set[int]:
    """Returns the waiting runs whose user or workspace has as many running runs as it may."""

    def fetch(sql: str, values: list[Any]) -> list[Any]:
        with statements() as cursor:
            cursor.execute(sql, values)
            return list(cursor.fetchall())

    limits = _Limits.read(fetch)
    if not (limits.most_of_users or limits.most_of_workspaces or has_limits_of_settings()):
        return set()
    waiting = fetch(f"SELECT r.id, {_USER}, r.workspace_id {_WAITING}", [])
    return {key for key, *whose in waiting if limits.is_reached(*whose)}


def queue_places(keys: Collection[int]) -> dict[int, int]:
    """Returns the places, from 1, of those of these runs that wait for a place of a worker.

    4,000 runs that wait take 16 ms of processor time (`python -m tests.bench.queues`).
    """
    with statements() as cursor:
        cursor.execute(_IN_TURNS.format(waiting=_WAITING), [_scheduled_since(now_ms())])
        rows = cursor.fetchall()
    return {key: place for place, (key, _, _) in enumerate(rows, 1) if key in keys}


def _scheduled_since(now: int) -> int:
    """Returns since when a scheduled run may have waited, to come after the others."""
    return now - settings.CRUSH_SCHEDULED_WAIT_MINUTES * 60_000
