"""The processes of the server: those that have registered, with what PostgreSQL shows of each.

PostgreSQL shows a process by the name of its connections (``crushsite.storage.name_connections``).
The id in the registry begins as the id in that name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from django.db import connection

from agents.figures import Worker
from crushsite.server_client import find_running_server
from workspaces.models import NEVER_EXPIRES, RegisteredProcess
from workspaces.queries.processes import lease_of

_NAME = re.compile(r"crush-server (?P<kind>serve|web|worker) (?P<pid>\d+) (?P<id>\S+)")
_CONNECTIONS = (
    "SELECT application_name, COALESCE(host(client_addr), ''), COUNT(*),"
    " COUNT(*) FILTER (WHERE wait_event_type = 'Lock'),"
    " EXTRACT(EPOCH FROM MAX(now() - xact_start))"
    " FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE %s"
    " GROUP BY 1, 2 ORDER BY 2, 1"
)
# A role that is no member of another one's sees those connections without names.
_NAMES = (
    "SELECT application_name FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_type = 'client backend'"
)
LONG_SECONDS = 1.0  # a transaction takes some milliseconds
UNSEEN = "not connected"


@dataclass(frozen=True, slots=True)
class ServerPid:
    """A process of the server."""

    kind: str
    pid: int | None
    instance_id: str  # as the registry has it
    host: str = ""
    version: str = ""
    started_at: int | None = None
    is_draining: bool = False
    runs: int = 0
    most_runs: int | None = None
    lease_expires_at: int | None = None  # None: it is alone, or holds nothing
    database: str = ""
    roots: tuple[str, ...] = ()
    missing_roots: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Connected:
    """What PostgreSQL shows of a process."""

    kind: str
    pid: int
    instance_id: str  # only its beginning
    host: str  # where the connections come from
    facts: str


def is_served(folder: Path) -> bool:
    """Whether a process of the server may run. On a shared database it may be on another host."""
    return connection.vendor == "postgresql" or find_running_server(folder) is not None


def processes(workers: Iterable[Worker], *, folder: Path) -> list[ServerPid]:
    """Returns the registered processes, and workers of an earlier release, which do not register.

    Processes that have died are among them until another one has taken over what they held.
    """
    held = {worker.name: worker for worker in workers}
    shared = connection.vendor == "postgresql"
    connected = _connected() if shared else []
    served = is_served(folder)
    found: list[ServerPid] = []
    for row in RegisteredProcess.objects.order_by("host", "kind", "pid"):
        worker = held.pop(row.pk, None)
        if not served and worker is None:
            continue  # a lone server that has ended
        own = next((each for each in connected if _is_same(row.pk, each.instance_id)), None)
        if own is not None:
            connected.remove(own)
            database = own.facts
        else:
            database = UNSEEN if shared or not served else ""
        found.append(_registered(row, worker, database=database, is_served=served))
    for each in connected:
        name = next((name for name in held if _is_same(name, each.instance_id)), None)
        found.append(_unregistered(each, None if name is None else held.pop(name)))
    gone = (ServerPid("worker", None, name, database=UNSEEN) for name in held)
    return [*found, *(_holding(each, held[each.instance_id]) for each in gone)]


def _registered(
    row: RegisteredProcess, worker: Worker | None, *, database: str, is_served: bool
) -> ServerPid:
    lease: int | None = lease_of(row)
    if lease == NEVER_EXPIRES:
        lease = None if is_served else 0
    return ServerPid(
        row.kind,
        row.pid,
        row.pk,
        row.host,
        row.version,
        row.started_at,
        row.is_draining,
        0 if worker is None else worker.runs,
        row.most_runs or None,
        lease,
        database,
        tuple(row.roots),
        tuple(row.missing_roots or ()),
        tuple(row.labels),
    )


def _unregistered(each: Connected, worker: Worker | None) -> ServerPid:
    shown = ServerPid(each.kind, each.pid, each.instance_id, each.host, database=each.facts)
    return shown if worker is None else _holding(shown, worker)


def _holding(shown: ServerPid, worker: Worker) -> ServerPid:
    return replace(
        shown,
        instance_id=worker.name,
        runs=worker.runs,
        lease_expires_at=worker.lease_expires_at,
    )


def disconnected(workers: Collection[str]) -> Collection[str]:
    """Returns those of the workers that have no connection to the database. Synchronous.

    None where this cannot be known: the URL of the database gives a name, or hides other names.
    """
    if connection.vendor != "postgresql":
        return ()
    with connection.cursor() as cursor:
        cursor.execute(_NAMES)
        names = [name for (name,) in cursor.fetchall()]
    found = [None if name is None else _NAME.fullmatch(name) for name in names]
    own = _NAME.fullmatch(str(connection.settings_dict["OPTIONS"].get("application_name", "")))
    if own is None or None in names:
        return ()
    here = [match["id"] for match in found if match is not None]
    if own["id"] not in here:
        return ()
    return [worker for worker in workers if not any(_is_same(worker, each) for each in here)]


def _is_same(name: str, instance_id: str) -> bool:
    # A server that is alone holds all leases.
    return name.startswith(instance_id)


def _connected() -> list[Connected]:
    with connection.cursor() as cursor:
        cursor.execute(_CONNECTIONS, ["crush-server %"])
        rows = cursor.fetchall()
    found = []
    for name, host, count, waiting, oldest in rows:
        match = _NAME.fullmatch(name)
        if match is None:
            continue  # a name from the URL of the database, or another program's
        facts = [f"{count} connection{'s' * (count != 1)}"]
        if waiting:
            facts.append(f"{waiting} waiting for a lock")
        if oldest is not None and oldest >= LONG_SECONDS:
            facts.append(f"a transaction since {oldest:.0f} s")
        found.append(
            Connected(match["kind"], int(match["pid"]), match["id"], host, ", ".join(facts))
        )
    return found
