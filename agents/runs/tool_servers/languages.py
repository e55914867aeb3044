"""Language servers as this process hosts them: the host, joined to configuration and database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from agents.config.cache import configs
from agents.runs.tool_servers.lsp_states import (
    Recorded,
    forget_server,
    read_recorded,
    record_status,
    settle_lost,
)
from agents.runs.tool_servers.own_environment import server_env
from agents.tools.contract import LanguageService, Tool
from agents.tools.lsp.host import LanguageHost, Ports
from agents.tools.lsp.plans import plans_of
from agents.tools.lsp.states import ServerStatus
from agents.tools.lsp.tools import tools_of
from agents.tools.lsp.workspace import Planned
from agents.tools.shell.identity import end_leftover, is_held_elsewhere
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.queries.workspaces import read_open_workspace

logger = logging.getLogger(__name__)


@cache
def language_host() -> LanguageHost:
    """The process's own."""
    return LanguageHost(Ports(plan=_plan, record=_record, forget=_forget, settle=settle_left))


async def lsp_tools(workspace_id: str) -> Mapping[str, Tool[Any]]:
    """The language tools; none where no server is configured or could start by itself."""
    try:
        servers = language_host().servers_of(workspace_id)
        await servers.refresh()
    except (
        WorkspaceUnknown
    ):  # it closed while its last run was ending: that run writes nothing more
        return {}
    except Exception:
        logger.exception("looking for language servers failed; the turn goes on without them")
        return {}
    return tools_of(servers) if servers.could_start else {}


def languages_of(workspace_id: str) -> LanguageService:
    return language_host().languages_of(workspace_id)


async def settle_left(workspace_id: str | None = None, *, is_alone: bool = False) -> None:
    """Ends what dead servers left running, and says so in the rows.

    ``is_alone``: no other process works on this data, so nothing that runs is another's.
    """
    found = await read(read_recorded, workspace_id)
    if not found:
        return
    lost = await asyncio.to_thread(_end_lost, found, is_alone)
    for owner in {row.workspace_id for row in lost}:
        rows = [row for row in lost if row.workspace_id == owner]
        await writer.write(owner, partial(_settle, rows))


def _end_lost(found: list[Recorded], is_alone: bool) -> list[Recorded]:
    lost = [r for r in found if is_alone or not is_held_elsewhere(r.pid, r.pid_started)]
    for row in lost:
        end_leftover(row.pid, row.pid_started)
    return lost


def _settle(rows: list[Recorded], tx: Any) -> None:
    settle_lost(tx, rows)


async def _plan(workspace_id: str) -> Planned:
    """Raises ``WorkspaceUnknown`` also for a workspace that is closed."""
    workspace = await read(read_open_workspace, workspace_id)
    settings = (await configs().newest_config_of(workspace_id)).settings
    env = await configs().env_of(workspace_id) or server_env()
    root = Path(workspace.path)
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
