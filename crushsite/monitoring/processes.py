"""The processes of the server: those that PostgreSQL sees, or the one on this data folder.

There is no registry. A process is recognised by the name of its connections
(``crushsite.storage.name_connections``), and holds runs under an id that begins as in the name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from django.db import connection

from agents.figures import Worker
from crushsite.server_client import find_running_server

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
    kind: str
    pid: int | None
    instance_id: str  # as leases have it; only its beginning if the process holds no run
    host: str = ""  # where its connections come from
    runs: int = 0
    lease_expires_at: int | None = None  # the first of its leases
    database: str = ""


def processes(workers: Iterable[Worker], *, folder: Path) -> list[ServerPid]:
    """Returns the processes that run, and the workers that hold runs without being connected."""
    left = {worker.name: worker for worker in workers}
    found = []
    for each in _connected() if connection.vendor == "postgresql" else _alone(folder):
        name = next((name for name in left if _is_same(name, each.instance_id)), None)
        held = left.pop(name) if name is not None else None
        found.append(each if held is None else _holding(each, held))
    gone = (ServerPid("worker", None, name, database=UNSEEN) for name in left)
    return [*found, *(_holding(each, left[each.instance_id]) for each in gone)]


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


def _holding(each: ServerPid, held: Worker) -> ServerPid:
    return replace(
        each, instance_id=held.name, runs=held.runs, lease_expires_at=held.lease_expires_at
    )


def _connected() -> Iterator[ServerPid]:
    with connection.cursor() as cursor:
        cursor.execute(_CONNECTIONS, ["crush-server %"])
        rows = cursor.fetchall()
    for name, host, count, waiting, oldest in rows:
        match = _NAME.fullmatch(name)
        if match is None:
            continue  # a name from the URL of the database, or another program's
        facts = [f"{count} connection{'s' * (count != 1)}"]
        if waiting:
            facts.append(f"{waiting} waiting for a lock")
        if oldest is not None and oldest >= LONG_SECONDS:
            facts.append(f"a transaction since {oldest:.0f} s")
        yield ServerPid(
            match["kind"], int(match["pid"]), match["id"], host, database=", ".join(facts)
        )


def _alone(folder: Path) -> Iterator[ServerPid]:
    server = find_running_server(folder)
    if server is not None:
        yield ServerPid("serve", server.pid, "", server.url)
