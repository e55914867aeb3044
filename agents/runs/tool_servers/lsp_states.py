"""Every write of what clients are told of language servers: the row, and its event."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from agents.models import LanguageServer
from agents.tools.lsp.states import ServerStatus, State
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind

_LIVING = (State.STARTING, State.READY)
_ERROR_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Recorded:
    """A row of a server that may have run in a process that is gone."""

    key: int
    workspace_id: str
    name: str
    pid: int
    pid_started: str


def record_status(tx: Transaction, workspace_id: str, status: ServerStatus) -> None:
    """Nothing is told when nothing differs from what is written."""
    row = LanguageServer.objects.filter(workspace_id=workspace_id, name=status.name).first()
    before = None if row is None else _facts(row)
    if row is None:
        row = LanguageServer(workspace_id=workspace_id, name=status.name)
    elif status.state is State.UNSTARTED and row.pid and row.state in _LIVING:
        return  # another process runs it
    row.state = int(status.state)
    row.error = status.error[:_ERROR_CHARS]
    row.diagnostic_count = status.diagnostic_count
    row.pid, row.pid_started = status.pid, status.pid_started
    if status.is_connected:
        row.connected_at = tx.now
    elif status.state is not State.READY:
        row.connected_at = None
    if _facts(row) == before:
        return
    row.save()
    _tell(tx, row, "diagnostics_changed" if status.only_diagnostics else "state_changed")


def forget_server(tx: Transaction, workspace_id: str, name: str) -> None:
    """It is configured no more: clients are told that it stopped, and see it no longer."""
    row = LanguageServer.objects.filter(workspace_id=workspace_id, name=name).first()
    if row is not None:
        row.state, row.error, row.diagnostic_count = int(State.STOPPED), "", 0
        _tell(tx, row, "state_changed")
        row.delete()


def settle_lost(tx: Transaction, lost: Collection[Recorded]) -> None:
    """Their processes are gone; unless they have been started anew meanwhile, they are stopped."""
    for recorded in lost:
        row = LanguageServer.objects.filter(
            pk=recorded.key, pid=recorded.pid, pid_started=recorded.pid_started
        ).first()
        if row is None:
            continue
        was_living = row.state in _LIVING
        row.pid, row.pid_started = 0, ""
        if was_living:
            row.state, row.diagnostic_count, row.connected_at = int(State.STOPPED), 0, None
        row.save()
        if was_living:
            _tell(tx, row, "state_changed")


def read_recorded(workspace_id: str | None) -> list[Recorded]:
    """Rows that say that something runs; of all workspaces without an id."""
    rows = LanguageServer.objects.filter(state__in=_LIVING) | LanguageServer.objects.filter(
        pid__gt=0
    )
    if workspace_id is not None:
        rows = rows.filter(workspace_id=workspace_id)
    columns = rows.values_list("pk", "workspace_id", "name", "pid", "pid_started")
    return [Recorded(*row) for row in columns]


def _facts(row: LanguageServer) -> tuple[Any, ...]:
    return (row.state, row.error, row.diagnostic_count, row.pid, row.pid_started, row.connected_at)


def _tell(tx: Transaction, row: LanguageServer, change: str) -> None:
    told: dict[str, Any] = {"type": change, "name": row.name, "state": row.state}
    if row.error:
        told["error"] = row.error
    if row.diagnostic_count or change == "diagnostics_changed":
        told["diagnostic_count"] = row.diagnostic_count
    tx.append(row.workspace_id, Kind.LSP_CHANGED, {"lsp": told})
