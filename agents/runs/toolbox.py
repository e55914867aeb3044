"""The tools of a run: those that are built in, and those that the workspace's servers bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.config.settings import Settings
from agents.models import RunKind
from agents.runs.tool_servers.languages import lsp_tools
from agents.runs.tool_servers.mcp_servers import late_servers, mcp_tools
from agents.tools.contract import Tool
from agents.tools.registry import available

# What a child run may use: it only reads.
_CHILDRENS: Mapping[str, tuple[str, ...]] = {
    RunKind.AGENT: (
        "glob",
        "grep",
        "ls",
        "sourcegraph",
        "view",
        "lsp_diagnostics",
        "lsp_references",
        "lsp_definition",
        "lsp_symbols",
        "lsp_call_hierarchy",
    ),
    RunKind.FETCH: ("web_search", "web_fetch", "glob", "grep", "sourcegraph", "view"),
}
# Configuration that was written for the earlier names still means these tools.
_EARLIER_NAMES = {"diagnostics": "lsp_diagnostics", "references": "lsp_references"}
# Only for those who read the web.
_FETCH_ONLY = frozenset({"web_search", "web_fetch"})


async def toolbox_of(workspace_id: str, kind: str, settings: Settings) -> Mapping[str, Tool[Any]]:
    """In a stable order, so that providers can keep the request's beginning cached."""
    brought = {**await lsp_tools(workspace_id)}
    if _has_mcp(kind, settings):
        brought |= await mcp_tools(workspace_id)
    disabled = settings.disabled_tools | {
        _EARLIER_NAMES[name] for name in settings.disabled_tools & _EARLIER_NAMES.keys()
    }
    tools = {
        **available(disabled),
        **{name: tool for name, tool in brought.items() if name not in disabled},
    }
    names = _CHILDRENS.get(kind)
    if names is not None:
        return {name: tools[name] for name in names if name in tools}
    return {name: tool for name, tool in tools.items() if name not in _FETCH_ONLY}


def late_servers_of(workspace_id: str, kind: str, settings: Settings) -> tuple[str, ...]:
    """The MCP servers whose tools the toolbox lacks because they still start."""
    return late_servers(workspace_id) if _has_mcp(kind, settings) else ()


def _has_mcp(kind: str, settings: Settings) -> bool:
    return kind not in _CHILDRENS and bool(settings.mcp)  # most workspaces have none
