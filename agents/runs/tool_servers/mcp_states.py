"""Every write of what clients are told of MCP servers: the row and its event; and their logins."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from agents.models import McpSecret, McpServer
from agents.runs.lease import Held, hold
from agents.tools.mcp.contract import Change, State, View
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import Workspace


@dataclass(frozen=True, slots=True)
class Recorded:
    """A row of a process that may have outlived its server."""

    key: int
    workspace_id: str
    pid: int
    pid_started: str


def record_server(tx: Transaction, workspace_id: str, view: View, change: Change) -> None:
    """Nothing of a workspace that has closed meanwhile: its clients are gone."""
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


def facts_of(view: View) -> dict[str, Any]:
    """As clients draw it: what is empty is left out."""
    told: dict[str, Any] = {"name": view.name, "state": view.state.value}
    if view.error:
        told["error"] = view.error
    counts = {
        "tool_count": view.tool_count,
        "prompt_count": view.prompt_count,
        "resource_count": view.resource_count,
    }
    is_up = view.state is State.CONNECTED
    return told | {name: count for name, count in counts.items() if count and is_up}


def drop_servers(_: Transaction, workspace_id: str, names: Collection[str] | None) -> None:
    """``None``: all of them."""
    rows = McpServer.objects.filter(workspace_id=workspace_id)
    (rows if names is None else rows.filter(name__in=names)).delete()


def read_processes(workspace_id: str | None) -> list[Recorded]:
    """Rows that say that a process runs; of all workspaces without an id."""
    rows = McpServer.objects.filter(pid__gt=0)
    if workspace_id is not None:
        rows = rows.filter(workspace_id=workspace_id)
    return [Recorded(*row) for row in rows.values_list("pk", "workspace_id", "pid", "pid_started")]


def settle_processes(tx: Transaction, lost: Collection[Recorded]) -> None:
    """They have been ended: their rows go, unless they speak of others meanwhile."""
    for recorded in lost:
        tx.execute(
            "DELETE FROM agents_mcpserver WHERE id = %s AND pid = %s AND pid_started = %s",
            [recorded.key, recorded.pid, recorded.pid_started],
        )


def drop_all_servers(tx: Transaction) -> None:
    """At the start of a server that is alone on its data: nothing of the last one runs."""
    tx.execute("DELETE FROM agents_mcpserver", [])


def save_secret(tx: Transaction, key: str, sealed: str) -> int:
    """The moment of the change, later than any before it."""
    earlier = McpSecret.objects.filter(url=key).values_list("changed_at", flat=True)
    changed_at = max([tx.now, *(moment + 1 for moment in earlier)])
    McpSecret.objects.update_or_create(
        url=key, defaults={"sealed": sealed, "changed_at": changed_at}
    )
    return changed_at


def record_late_servers(tx: Transaction, held: Held, names: Sequence[str]) -> None:
    """A run begins without the tools of these servers, which join at a later step."""
    run = hold(tx, held)
    facts = {"session_id": run.session_id, "servers": list(names)}
    tx.append(run.workspace_id, Kind.MCP_AWAITED, facts, session_id=run.session_id)
