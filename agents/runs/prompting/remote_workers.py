"""The rows of connected remote workers, which all processes of the server read. Synchronous."""

from __future__ import annotations

import orjson

from agents.fleet.parent.joined import WorkerHello
from agents.fleet_models import RemoteWorker
from agents.turn.options import RunOptions
from workspaces.log.errors import BadField, Refusal
from workspaces.log.transaction import Transaction
from workspaces.placement.remote_place import RemotePlace
from workspaces.queries.workspaces import RemoteFolder

RENEWED_SECONDS = 5.0  # how often its server renews a row
LOST_MS = 15_000  # a row that is older is of a server that died


class WorkerAway(Refusal):
    """The remote worker of this workspace is not connected."""

    code = "worker_away"
    status = 409


class WorkerNameTaken(Refusal):
    """Another remote worker of this name is connected. Give this one another name."""

    code = "worker_name_taken"
    status = 409


def note_worker(tx: Transaction, hello: WorkerHello, *, server: str) -> None:
    """Stores that it is connected to this process now. Raises ``WorkerNameTaken``."""
    row = RemoteWorker.objects.select_for_update().filter(name=hello.name).first()
    if row is not None and row.instance != hello.instance and row.seen_at > tx.now - LOST_MS:
        raise WorkerNameTaken
    others = {} if row is None or row.instance != hello.instance else _connected(tx, row)
    RemoteWorker.objects.update_or_create(
        name=hello.name,
        defaults={
            "instance": hello.instance,
            "server": server,
            "servers": orjson.dumps(others | {server: tx.now}).decode(),
            "roots": list(hello.roots),
            "capacity": hello.capacity,
            "seen_at": tx.now,
        },
    )


def forget_worker(tx: Transaction, name: str, *, server: str) -> None:
    """Removes the row, unless the worker is connected to another process as well."""
    row = RemoteWorker.objects.select_for_update().filter(name=name).first()
    if row is None:
        return
    others = _connected(tx, row)
    others.pop(server, None)
    if not others:
        row.delete()
        return
    row.server = max(others, key=others.__getitem__)
    row.seen_at = others[row.server]
    row.servers = orjson.dumps(others).decode()
    row.save()


def _connected(tx: Transaction, row: RemoteWorker) -> dict[str, int]:
    """Returns the processes that the worker is connected to, with when they renewed its row."""
    # An older release writes only ``server`` and ``seen_at``.
    renewed: dict[str, int] = orjson.loads(row.servers) | {row.server: row.seen_at}
    return {server: at for server, at in renewed.items() if at > tx.now - LOST_MS}


def require_possible_there(options: RunOptions, *, is_prompt: bool, has_files: bool) -> None:
    """Checks that the wire can carry the run. Raises ``RemoteFolder``, ``BadField``."""
    if not is_prompt:
        raise RemoteFolder(
            "A session of a remote worker is not summarised here: its worker shortens long"
            " conversations by itself."
        )
    if options.model:
        raise BadField("model: a remote worker uses the models of its own configuration")
    if options.budget:
        raise BadField("budget: a remote worker reports no usage, so no budget can be kept")
    if has_files:
        raise BadField("attachments: a remote worker gets texts only")


def connected_workers(now: int) -> frozenset[str]:
    """Returns the names of those that are connected."""
    rows = RemoteWorker.objects.filter(seen_at__gt=now - LOST_MS)
    return frozenset(rows.values_list("name", flat=True))


def require_remote_worker(tx: Transaction, place: RemotePlace) -> None:
    """Checks that the place's worker is connected. Raises ``WorkerAway``."""
    row = RemoteWorker.objects.filter(name=place.worker, seen_at__gt=tx.now - LOST_MS).first()
    if row is None:
        raise WorkerAway(
            f"The remote worker {place.worker!r} is not connected. Start `crush-server"
            " remote-worker` on its machine, and send the prompt again."
        )
    if place.root not in row.roots:
        raise WorkerAway(
            f"The remote worker {place.worker!r} has no folder {place.root!r}. It has:"
            f" {', '.join(sorted(row.roots))}."
        )
