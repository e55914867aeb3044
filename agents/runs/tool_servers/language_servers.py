"""Hosts language servers in this process, with the configuration and the database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from agents.config.cache import configs
from agents.models import LanguageServer
from agents.runs.tool_servers.own_environment import server_env
from agents.tools.contract import LanguageService, Tool
from agents.tools.lsp.host import LanguageHost, Ports
from agents.tools.lsp.plans import plans_of
from agents.tools.lsp.states import LanguageServerStatus, ServerStatus
from agents.tools.lsp.tools import tools_of
from agents.tools.lsp.workspace import Planned
from agents.tools.shell.identity import end_leftover, is_held_elsewhere
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.log.writer import writer
from workspaces.placement.remote_place import remote_place
from workspaces.queries.workspaces import read_open_workspace

_LIVING = (LanguageServerStatus.STARTING, LanguageServerStatus.READY)
_ERROR_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class RecordedLanguageServer:
    """The row of a language server whose process may have died."""

    key: int
    workspace_id: str
    name: str
    pid: int
    pid_started: str


def record_status(tx: Transaction, workspace_id: str, status: ServerStatus) -> None:
    """Writes the status and appends an event. Does nothing when the row is unchanged."""
    row = LanguageServer.objects.filter(workspace_id=workspace_id, name=status.name).first()
    before = None if row is None else _facts(row)
    if row is None:
        row = LanguageServer(workspace_id=workspace_id, name=status.name)
    elif status.state is LanguageServerStatus.UNSTARTED and row.pid and row.state in _LIVING:
        return  # another process runs it
    row.state = int(status.state)
    row.error = status.error[:_ERROR_CHARS]
    row.diagnostic_count = status.diagnostic_count
    row.pid, row.pid_started = status.pid, status.pid_started
    if status.is_connected:
        row.connected_at = tx.now
    elif status.state is not LanguageServerStatus.READY:
        row.connected_at = None
    if _facts(row) == before:
        return
    row.save()
    _append_change(tx, row, "diagnostics_changed" if status.only_diagnostics else "state_changed")


def forget_server(tx: Transaction, workspace_id: str, name: str) -> None:
    """Deletes the row of a server that is no longer configured; an event says that it stopped."""
    row = LanguageServer.objects.filter(workspace_id=workspace_id, name=name).first()
    if row is not None:
        row.state, row.error, row.diagnostic_count = int(LanguageServerStatus.STOPPED), "", 0
        _append_change(tx, row, "state_changed")
        row.delete()


def settle_lost(tx: Transaction, lost: Collection[RecordedLanguageServer]) -> None:
    """Marks servers whose processes are gone as stopped, unless they have been restarted since."""
    for recorded in lost:
        row = LanguageServer.objects.filter(
            pk=recorded.key, pid=recorded.pid, pid_started=recorded.pid_started
        ).first()
        if row is None:
            continue
        was_living = row.state in _LIVING
        row.pid, row.pid_started = 0, ""
        if was_living:
            row.state, row.diagnostic_count, row.connected_at = (
                int(LanguageServerStatus.STOPPED),
                0,
                None,
            )
        row.save()
        if was_living:
            _append_change(tx, row, "state_changed")


def read_recorded(workspace_id: str | None) -> list[RecordedLanguageServer]:
    """Returns the rows whose server may run, of one workspace or, without an id, of all."""
    rows = LanguageServer.objects.filter(state__in=_LIVING) | LanguageServer.objects.filter(
        pid__gt=0
    )
    if workspace_id is not None:
        rows = rows.filter(workspace_id=workspace_id)
    columns = rows.values_list("pk", "workspace_id", "name", "pid", "pid_started")
    return [RecordedLanguageServer(*row) for row in columns]


def _facts(row: LanguageServer) -> tuple[Any, ...]:
    return (row.state, row.error, row.diagnostic_count, row.pid, row.pid_started, row.connected_at)


def _append_change(tx: Transaction, row: LanguageServer, change: str) -> None:
    facts: dict[str, Any] = {"type": change, "name": row.name, "state": row.state}
    if row.error:
        facts["error"] = row.error
    if row.diagnostic_count or change == "diagnostics_changed":
        facts["diagnostic_count"] = row.diagnostic_count
    tx.append(row.workspace_id, Kind.LSP_CHANGED, {"lsp": facts})


logger = logging.getLogger(__name__)


@cache
def language_host() -> LanguageHost:
    """Returns the language host of this process."""
    return LanguageHost(Ports(plan=_plan, record=_record, forget=_forget, settle=settle_left))


async def lsp_tools(workspace_id: str) -> Mapping[str, Tool[Any]]:
    """Returns the language tools, or none if no server is configured or could be started."""
    try:
        servers = language_host().servers_of(workspace_id)
        await servers.refresh()
    except (
        WorkspaceUnknown
    ):  # the workspace closed while its last run was ending, which writes nothing more
        return {}
    except Exception:
        logger.exception("looking for language servers failed; the turn goes on without them")
        return {}
    return tools_of(servers) if servers.could_start else {}


def languages_of(workspace_id: str) -> LanguageService:
    return language_host().languages_of(workspace_id)


async def settle_left(workspace_id: str | None = None, *, is_alone: bool = False) -> None:
    """Ends the language servers of dead processes, and marks their rows as stopped.

    ``is_alone``: no other process works on this data, so every recorded server is a leftover.
    """
    found = await read(read_recorded, workspace_id)
    if not found:
        return
    lost = await asyncio.to_thread(_end_lost, found, is_alone)
    for owner in {row.workspace_id for row in lost}:
        rows = [row for row in lost if row.workspace_id == owner]
        await writer.write(owner, partial(_settle, rows))


def _end_lost(found: list[RecordedLanguageServer], is_alone: bool) -> list[RecordedLanguageServer]:
    lost = [r for r in found if is_alone or not is_held_elsewhere(r.pid, r.pid_started)]
    for row in lost:
        end_leftover(row.pid, row.pid_started)
    return lost


def _settle(rows: list[RecordedLanguageServer], tx: Any) -> None:
    settle_lost(tx, rows)


async def _plan(workspace_id: str) -> Planned:
    """Returns the planned servers. Raises ``WorkspaceUnknown``, also for a closed workspace."""
    workspace = await read(read_open_workspace, workspace_id)
    settings = (await configs().newest_config_of(workspace_id)).settings
    env = await configs().env_of(workspace_id) or server_env()
    root = Path(workspace.path)
    if remote_place(workspace.path) is not None:  # the remote worker has its own
        return Planned(root, env, ())
    plans = await asyncio.to_thread(
        plans_of,
        root,
        configured=settings.lsp,
        starts_known=settings.auto_lsp,
        env=env,
        runs_project_code=settings.runs_project_code,
    )
    return Planned(root, env, plans)


async def _record(workspace_id: str, status: ServerStatus) -> None:
    await writer.write(workspace_id, lambda tx: record_status(tx, workspace_id, status))


async def _forget(workspace_id: str, name: str) -> None:
    await writer.write(workspace_id, lambda tx: forget_server(tx, workspace_id, name))
