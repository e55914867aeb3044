"""The tools of a run: those that are built in, and those that the workspace's servers bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.models import RunKind
from agents.tools.contract import Tool
from agents.tools.registry import available
from workspaces.config.settings import Settings

# What a child run may use: it only reads.
_CHILDRENS: Mapping[str, tuple[str, ...]] = {
    RunKind.AGENT: ("glob", "grep", "ls", "sourcegraph", "view"),
    RunKind.FETCH: ("web_search", "web_fetch", "glob", "grep", "sourcegraph", "view"),
}
# Only for those who read the web.
_FETCH_ONLY = frozenset({"web_search", "web_fetch"})


async def toolbox_of(kind: str, settings: Settings) -> Mapping[str, Tool[Any]]:
    """In a stable order, so that providers can keep the request's beginning cached."""
    built_in = available(settings.disabled_tools)
    names = _CHILDRENS.get(kind)
    if names is not None:
        return {name: built_in[name] for name in names if name in built_in}
    return {name: tool for name, tool in built_in.items() if name not in _FETCH_ONLY}
