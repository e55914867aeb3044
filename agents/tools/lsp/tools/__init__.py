"""The tools that use the language servers of one workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.tools.contract import Tool
from agents.tools.lsp.tools.call_hierarchy import CallHierarchy
from agents.tools.lsp.tools.definition import Definition
from agents.tools.lsp.tools.diagnostics import Diagnostics
from agents.tools.lsp.tools.references import References
from agents.tools.lsp.tools.rename import Rename
from agents.tools.lsp.tools.replace_symbol import ReplaceSymbol
from agents.tools.lsp.tools.restart import Restart
from agents.tools.lsp.tools.symbols import Symbols
from agents.tools.lsp.workspace import WorkspaceServers


def tools_of(servers: WorkspaceServers) -> Mapping[str, Tool[Any]]:
    """Returns all eight tools in a stable order."""
    tools: tuple[Tool[Any], ...] = (
        Diagnostics(servers),
        References(servers),
        Definition(servers),
        Symbols(servers),
        CallHierarchy(servers),
        Rename(servers),
        ReplaceSymbol(servers),
        Restart(servers),
    )
    return {tool.spec.name: tool for tool in tools}
