"""Hosts MCP servers in this process, with the configuration and the database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from agents.config.cache import configs
from agents.models import McpSecret, McpServer
from agents.runs.lease import Lease, require_lease
from agents.runs.tool_servers.own_environment import server_env
from agents.tools.contract import Tool
from agents.tools.mcp.contract import McpChange, McpServerView, McpStatus, McpWorkspace, Secret
from agents.tools.mcp.host import McpHost
from agents.tools.mcp.tools import tools_of
from agents.tools.shell.identity import end_leftover, is_held_elsewhere
from workspaces.log.errors import Refusal
from workspaces.log.reader import read
from workspaces.log.secrets import box
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.log.writer import writer
from workspaces.models import Workspace
from workspaces.placement.remote_place import remote_place
from workspaces.queries.workspaces import read_open_workspace


@dataclass(frozen=True, slots=True)
class RecordedMcpServer:
    """The row of an MCP server process that may have outlived our server."""

    key: int
    workspace_id: str
    pid: int
    pid_started: str


def record_server(
    tx: Transaction, workspace_id: str, view: McpServerView, change: McpChange
) -> None:
    """Writes a server's state and its event, unless the workspace has closed meanwhile."""
    if not Workspace.objects.filter(pk=workspace_id, is_open=True).exists():
        return
    McpServer.objects.update_or_create(
        workspace_id=workspace_id,
        name=view.name,
        defaults={
            "state": view.state.value,
            "error": view.error,
            "tool_count": view.tool_count,
            "prompt_count": view.prompt_count,
            "resource_count": view.resource_count,
            "auth_url": view.auth_url,
            "connected_at": view.connected_at,
            "pid": view.process.pid,
            "pid_started": view.process.started,
        },
    )
    tx.append(workspace_id, Kind.MCP_CHANGED, {"mcp": {"type": change.value, **facts_of(view)}})


def facts_of(view: McpServerView) -> dict[str, Any]:
    """Returns the server's state for clients, without empty fields."""
    facts: dict[str, Any] = {"name": view.name, "state": view.state.value}
    if view.error:
        facts["error"] = view.error
    counts = {
        "tool_count": view.tool_count,
        "prompt_count": view.prompt_count,
        "resource_count": view.resource_count,
    }
    is_up = view.state is McpStatus.CONNECTED
    return facts | {name: count for name, count in counts.items() if count and is_up}


def drop_servers(_: Transaction, workspace_id: str, names: Collection[str] | None) -> None:
    """Deletes the rows of these servers, or of all servers where ``names`` is ``None``."""
    rows = McpServer.objects.filter(workspace_id=workspace_id)
    (rows if names is None else rows.filter(name__in=names)).delete()


def read_processes(workspace_id: str | None) -> list[RecordedMcpServer]:
    """Returns the rows with a process, of one workspace or, without an id, of all."""
    rows = McpServer.objects.filter(pid__gt=0)
    if workspace_id is not None:
        rows = rows.filter(workspace_id=workspace_id)
    return [
        RecordedMcpServer(*row)
        for row in rows.values_list("pk", "workspace_id", "pid", "pid_started")
    ]


def settle_processes(tx: Transaction, lost: Collection[RecordedMcpServer]) -> None:
    """Deletes the rows of ended processes, unless a row has another process by now."""
    for recorded in lost:
        tx.execute(
            "DELETE FROM agents_mcpserver WHERE id = %s AND pid = %s AND pid_started = %s",
            [recorded.key, recorded.pid, recorded.pid_started],
        )


def drop_all_servers(tx: Transaction) -> None:
    """Deletes all rows, at the start of a server that is alone on its data."""
    tx.execute("DELETE FROM agents_mcpserver", [])


def save_secret(tx: Transaction, key: str, sealed: str) -> int:
    """Stores a secret; returns the time of the change, which is later than any before it."""
    earlier = McpSecret.objects.filter(url=key).values_list("changed_at", flat=True)
    changed_at = max([tx.now, *(moment + 1 for moment in earlier)])
    McpSecret.objects.update_or_create(
        url=key, defaults={"sealed": sealed, "changed_at": changed_at}
    )
    return changed_at


def record_late_servers(tx: Transaction, held: Lease, names: Sequence[str]) -> None:
    """Appends an event: the run starts without the tools of these servers, which join later."""
    run = require_lease(tx, held)
    facts = {"session_id": run.session_id, "servers": list(names)}
    tx.append(run.workspace_id, Kind.MCP_AWAITED, facts, session_id=run.session_id)


logger = logging.getLogger(__name__)


@cache
def mcp_host() -> McpHost:
    """Returns the MCP host of this process."""
    return McpHost(StoredBacking())


# How long a prompt waits for servers that start for the first time, while a person waits for its
# reply. The tools of servers that take longer join at the next step.
PROMPT_WAIT_SECONDS = 1.0


async def mcp_tools(workspace_id: str) -> Mapping[str, Tool[Any]]:
    """Returns a run's MCP tools; waits a moment for servers that start for the first time.

    An error of a server raises nothing: the turn continues without its tools.
    """
    try:
        return await tools_of(mcp_host(), workspace_id, seconds=PROMPT_WAIT_SECONDS)
    except Refusal as refusal:
        logger.warning("no MCP tools: %s", refusal, extra={"workspace": workspace_id})
        return {}


def late_servers(workspace_id: str) -> tuple[str, ...]:
    """Returns the names of the servers that had not started when ``mcp_tools`` last returned."""
    late = mcp_host().late_servers(workspace_id)
    if late:
        names = ", ".join(late)
        log = {"workspace": workspace_id}
        logger.info("a prompt begins without the tools of MCP servers: %s", names, extra=log)
    return late


async def forget_last_servers() -> None:
    """Ends leftover MCP servers, at the start of a server that is alone on its data."""
    found = await read(read_processes, None)
    if found:
        await asyncio.to_thread(_end, found)
    await writer.write("", drop_all_servers)


class StoredBacking:
    async def workspace(self, workspace_id: str) -> McpWorkspace:
        """Returns the workspace's settings. Raises ``WorkspaceUnknown``, also if it is closed."""
        workspace = await read(read_open_workspace, workspace_id)
        settings = (await configs().newest_config_of(workspace_id)).settings
        env = await configs().env_of(workspace_id) or server_env()
        is_remote = remote_place(workspace.path) is not None
        servers = {} if is_remote else settings.mcp  # the remote worker has its own
        return McpWorkspace(workspace.path, env, servers, settings.disabled_tools)

    async def record(self, workspace_id: str, view: McpServerView, change: McpChange) -> None:
        await writer.write(workspace_id, partial(_record, workspace_id, view, change))

    async def drop(self, workspace_id: str, names: frozenset[str] | None) -> None:
        await writer.write(workspace_id, partial(_drop, workspace_id, names))

    async def settle(self, workspace_id: str) -> None:
        found = await read(read_processes, workspace_id)
        if found:
            lost = await asyncio.to_thread(_end_lost, found)
            await writer.write(workspace_id, partial(_settle, lost))

    async def load_secret(self, key: str) -> Secret | None:
        """Returns the stored secret, or ``None``. Raises ``SecretsUnavailable``."""
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


def _record(workspace_id: str, view: McpServerView, change: McpChange, tx: Transaction) -> None:
    record_server(tx, workspace_id, view, change)


def _drop(workspace_id: str, names: frozenset[str] | None, tx: Transaction) -> None:
    drop_servers(tx, workspace_id, names)


def _settle(lost: list[RecordedMcpServer], tx: Transaction) -> None:
    settle_processes(tx, lost)


def _end_lost(found: list[RecordedMcpServer]) -> list[RecordedMcpServer]:
    lost = [row for row in found if not is_held_elsewhere(row.pid, row.pid_started)]
    _end(lost)
    return lost


def _end(found: list[RecordedMcpServer]) -> None:
    for row in found:
        end_leftover(row.pid, row.pid_started)
