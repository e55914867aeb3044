"""Every write to the registry of processes.

A process that lives renews its registration. What it holds is its own until the registration is
lost, which other processes decide: no row of a run is written while the run proceeds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db import connection

from workspaces.log.errors import Overtaken
from workspaces.log.rows import placeholders
from workspaces.log.transaction import Transaction
from workspaces.models import RegisteredProcess, WorkRoot

_TABLE = "workspaces_registeredprocess"
_HOMES = "workspaces_workspacehome"
# Of a process ``p``: what it is home of is no other worker's. An expired registration is its own
# until others have marked it as lost, so a process that renews late has lost nothing.
BINDS = "NOT p.is_lost AND NOT p.is_draining"
_IS_LOCKED = "pg_try_advisory_xact_lock(26735, hashtext({}))"


class RegistrationLost(Overtaken):
    """Other processes take over what this one held: it must stop that work and register again."""


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What a process states when it registers."""

    kind: str
    host: str
    pid: int
    version: str
    started_at: int
    most_runs: int = 0
    roots: tuple[str, ...] = ()
    missing_roots: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    pid_host: str = ""


def register(tx: Transaction, process_id: str, facts: ProcessFacts, *, expires_at: int) -> None:
    RegisteredProcess(
        id=process_id,
        kind=facts.kind,
        host=facts.host,
        pid_host=facts.pid_host,
        pid=facts.pid,
        version=facts.version,
        roots=list(facts.roots),
        missing_roots=list(facts.missing_roots),
        labels=list(facts.labels),
        started_at=facts.started_at,
        most_runs=facts.most_runs,
        registered_at=tx.now,
        expires_at=expires_at,
    ).save(force_insert=True)


def renew_registration(
    tx: Transaction,
    process_id: str,
    *,
    lease_ms: int,
    runs: int,
    is_draining: bool,
    roots: Sequence[str] = (),
    missing_roots: Sequence[str] = (),
) -> None:
    """Renews the registration of a process. Raises ``RegistrationLost``."""
    held = RegisteredProcess.objects.filter(pk=process_id, is_lost=False)
    changed = held.update(
        expires_at=tx.now + lease_ms,
        runs=runs,
        is_draining=is_draining,
        roots=list(roots),
        missing_roots=list(missing_roots),
    )
    if not changed:
        raise RegistrationLost


def mark_lost(tx: Transaction, process_id: str, *, renewed_until: int) -> bool:
    """Ends a registration that has not been renewed beyond ``renewed_until``.

    From then on its process cannot renew it, and others may take over what it held. A row that
    another transaction has locked is left for the next time.
    """
    lock = " FOR UPDATE SKIP LOCKED" if connection.features.has_select_for_update else ""
    changed = tx.change(
        f"UPDATE {_TABLE} SET is_lost = %s WHERE id IN (SELECT id FROM {_TABLE}"
        f" WHERE id = %s AND is_lost = %s AND expires_at <= %s{lock})",
        [True, process_id, False, renewed_until],
    )
    return bool(changed)


def end_registration(tx: Transaction, process_id: str) -> None:
    """Ends the registration of a process that stops. What it still holds is taken over."""
    tx.execute(f"UPDATE {_TABLE} SET is_lost = %s WHERE id = %s", [True, process_id])


def forget_process(tx: Transaction, process_id: str) -> None:
    """Deletes a lost registration, once nothing is held under it, with its homes."""
    tx.execute(f"DELETE FROM {_TABLE} WHERE id = %s AND is_lost = %s", [process_id, True])
    tx.execute(
        f"DELETE FROM {_HOMES} WHERE process_id = %s"
        f" AND NOT EXISTS (SELECT 1 FROM {_TABLE} p WHERE p.id = %s)",
        [process_id, process_id],
    )


def forget_all_processes(tx: Transaction) -> None:
    """Deletes all registrations, at the start of a server that is alone on its data."""
    tx.execute(f"DELETE FROM {_TABLE}", [])
    tx.execute(f"DELETE FROM {_HOMES}", [])


def take_homes(tx: Transaction, process_id: str, workspace_ids: Sequence[str]) -> set[str]:
    """Makes a process the home of these workspaces; returns those whose home it is now.

    The others have a home that binds, or another process is taking them at this moment: that one
    is not waited for. The caller has checked the registration. Only for PostgreSQL.
    """
    if not workspace_ids:
        return set()
    rows = tx.fetch(
        f"INSERT INTO {_HOMES} AS h (workspace_id, process_id, since)"
        f" SELECT v.id, %s, %s FROM (VALUES {', '.join(['(%s)'] * len(workspace_ids))}) AS v(id)"
        f" WHERE {_IS_LOCKED.format('v.id')} ON CONFLICT (workspace_id) DO UPDATE"
        " SET process_id = EXCLUDED.process_id, since = EXCLUDED.since, is_overflowing = FALSE"
        " WHERE h.process_id = EXCLUDED.process_id OR NOT EXISTS"
        f" (SELECT 1 FROM {_TABLE} p WHERE p.id = h.process_id AND {BINDS})"
        " RETURNING h.workspace_id",
        [process_id, tx.now, *workspace_ids],
    )
    return {workspace_id for (workspace_id,) in rows}


def take_home(tx: Transaction, process_id: str, workspace_id: str) -> bool:
    """Makes a registered process the home of a workspace. Raises ``RegistrationLost``."""
    registered = f"SELECT 1 FROM {_TABLE} p WHERE p.id = %s AND {BINDS} FOR SHARE"
    if not tx.fetch(registered, [process_id]):
        raise RegistrationLost
    return bool(take_homes(tx, process_id, [workspace_id]))


def overflowing_homes(tx: Transaction, process_id: str, workspace_ids: Sequence[str]) -> set[str]:
    """Returns those of these workspaces whose home, another process, lets others claim their runs."""
    if not workspace_ids:
        return set()
    rows = tx.fetch(
        f"SELECT h.workspace_id FROM {_HOMES} h JOIN {_TABLE} p ON p.id = h.process_id"
        f" WHERE h.workspace_id IN ({placeholders(len(workspace_ids))}) AND h.is_overflowing"
        f" AND h.process_id <> %s AND {BINDS}",
        [*workspace_ids, process_id],
    )
    return {workspace_id for (workspace_id,) in rows}


def set_overflowing(
    tx: Transaction, process_id: str, workspace_ids: Collection[str], *, is_overflowing: bool
) -> None:
    """Stores whether other workers may claim runs of these workspaces. Their home decides."""
    if workspace_ids:
        tx.execute(
            f"UPDATE {_HOMES} SET is_overflowing = %s WHERE process_id = %s"
            f" AND workspace_id IN ({placeholders(len(workspace_ids))})",
            [is_overflowing, process_id, *sorted(workspace_ids)],
        )


def leave_homes(tx: Transaction, process_id: str, workspace_ids: Collection[str] | None) -> None:
    """Ends that a process is the home of these workspaces; with ``None``, of all."""
    if workspace_ids is not None and not workspace_ids:
        return
    where, values = "", list[str]()
    if workspace_ids is not None:
        where = f" AND workspace_id IN ({placeholders(len(workspace_ids))})"
        values = sorted(workspace_ids)
    tx.execute(
        f"DELETE FROM {_HOMES} WHERE process_id = %s{where}"
        f" AND {_IS_LOCKED.format('workspace_id')}",
        [process_id, *values],
    )


def add_root(_: Transaction, *, name: str, path: str, marker: str) -> WorkRoot:
    """Stores a root. ``marker``: the id that its folder has already, or empty for a new one."""
    root = WorkRoot(name=name, path=path)
    if marker:
        root.marker = marker
    root.save(force_insert=True)
    return root


def forget_root(_: Transaction, *, name: str) -> bool:
    """Deletes a root. Returns whether there was one."""
    deleted, _by_model = WorkRoot.objects.filter(pk=name).delete()
    return bool(deleted)
