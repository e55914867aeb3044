"""MCP servers as this process hosts them: the host, joined to configuration and database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from agents.config.cache import configs
from agents.models import McpSecret
from agents.runs.tool_servers.mcp_states import (
    Recorded,
    drop_all_servers,
    drop_servers,
    read_processes,
    record_server,
    save_secret,
    settle_processes,
)
from agents.runs.tool_servers.own_environment import server_env
from agents.tools.contract import Tool
from agents.tools.mcp.contract import Change, Place, Secret, View
from agents.tools.mcp.host import McpHost
from agents.tools.shell.identity import end_leftover, is_held_elsewhere
from workspaces.log.errors import Refusal
from workspaces.log.reader import read
from workspaces.log.secret_box import box
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.queries.workspaces import read_open_workspace

logger = logging.getLogger(__name__)


@cache
def mcp_host() -> McpHost:
    """The process's own."""
    return McpHost(StoredBacking())


# A prompt's, for servers that start for the first time: a person waits for its first word.
# Servers that take longer are no loss, because their tools join at the next step.
PROMPT_WAIT_SECONDS = 1.0


async def mcp_tools(workspace_id: str) -> Mapping[str, Tool[Any]]:
    """What a run may call; waits a moment for servers that start for the first time.

    Never raises for what is wrong with a server: a turn goes on without it.
    """
    try:
        return await mcp_host().tools(workspace_id, seconds=PROMPT_WAIT_SECONDS)
    except Refusal as refusal:
        logger.warning("no MCP tools: %s", refusal, extra={"workspace": workspace_id})
        return {}


def late_servers(workspace_id: str) -> tuple[str, ...]:
    """The names of those that the last ``mcp_tools`` did not wait for to the end."""
    late = mcp_host().late(workspace_id)
    if late:
        names = ", ".join(late)
        log = {"workspace": workspace_id}
        logger.info("a prompt begins without the tools of MCP servers: %s", names, extra=log)
    return late


async def forget_last_servers() -> None:
    """At the start of a server that is alone on its data: ends what the last one left running."""
    found = await read(read_processes, None)
    if found:
        await asyncio.to_thread(_end, found)
    await writer.write("", drop_all_servers)


class StoredBacking:
    async def place(self, workspace_id: str) -> Place:
        """Raises ``WorkspaceUnknown`` also for a workspace that is closed."""
        workspace = await read(read_open_workspace, workspace_id)
        settings = (await configs().newest_config_of(workspace_id)).settings
        env = await configs().env_of(workspace_id) or server_env()
        return Place(workspace.path, env, settings.mcp, settings.disabled_tools)

    async def record(self, workspace_id: str, view: View, change: Change) -> None:
        await writer.write(workspace_id, partial(_record, workspace_id, view, change))

    async def drop(self, workspace_id: str, names: frozenset[str] | None) -> None:
        await writer.write(workspace_id, partial(_drop, workspace_id, names))

    async def settle(self, workspace_id: str) -> None:
        found = await read(read_processes, workspace_id)
        if found:
            lost = await asyncio.to_thread(_end_lost, found)
            await writer.write(workspace_id, partial(_settle, lost))

    async def load_secret(self, key: str) -> Secret | None:
        """Raises ``SecretsUnavailable``."""
        row = await read(_secret, key)
        if row is None:
            return None
        sealed, changed_at = row
        return Secret(await asyncio.to_thread(box().open, sealed), changed_at)

    async def save_secret(self, key: str, text: str) -> int:
        sealed = await asyncio.to_thread(box().seal, text)
        return await writer.write("", lambda tx: save_secret(tx, key, sealed))


def _secret(key: str) -> tuple[str, int] | None:
    return McpSecret.objects.filter(url=key).values_list("sealed", "changed_at").first()


def _record(workspace_id: str, view: View, change: Change, tx: Transaction) -> None:
    record_server(tx, workspace_id, view, change)


def _drop(workspace_id: str, names: frozenset[str] | None, tx: Transaction) -> None:
    drop_servers(tx, workspace_id, names)


def _settle(lost: list[Recorded], tx: Transaction) -> None:
    settle_processes(tx, lost)


def _end_lost(found: list[Recorded]) -> list[Recorded]:
    lost = [row for row in found if not is_held_elsewhere(row.pid, row.pid_started)]
    _end(lost)
    return lost


def _end(found: list[Recorded]) -> None:
    for row in found:
        end_leftover(row.pid, row.pid_started)
