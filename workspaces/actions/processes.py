"""Every write to the registry of processes.

A process that lives renews its registration. What it holds is its own until the registration is
lost, which other processes decide: no row of a run is written while the run proceeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from workspaces.log.errors import Overtaken
from workspaces.log.transaction import Transaction
from workspaces.models import RegisteredProcess, WorkRoot

_TABLE = "workspaces_registeredprocess"


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


def register(tx: Transaction, process_id: str, facts: ProcessFacts, *, expires_at: int) -> None:
    RegisteredProcess(
        id=process_id,
        kind=facts.kind,
        host=facts.host,
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
    """Deletes a lost registration, once nothing is held under it."""
    tx.execute(f"DELETE FROM {_TABLE} WHERE id = %s AND is_lost = %s", [process_id, True])


def forget_all_processes(tx: Transaction) -> None:
    """Deletes all registrations, at the start of a server that is alone on its data."""
    tx.execute(f"DELETE FROM {_TABLE}", [])


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
