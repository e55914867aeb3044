"""``lsp`` of the merged files as typed, expanded values. Pure.

Without a command an entry tunes or switches off a server that is known by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.config.expand import Lookup
from agents.config.problem import Problem
from agents.config.sections.entry import SectionEntry, entries_of
from agents.config.settings import LspSettings

TIMEOUT_SECONDS = 30.0


def language_servers(
    tree: Mapping[str, Any], *, lookup: Lookup, problems: list[Problem]
) -> dict[str, LspSettings]:
    entries = entries_of(tree, "lsp", lookup=lookup, problems=problems)
    return {entry.name: _server(entry) for entry in entries}


def _server(entry: SectionEntry) -> LspSettings:
    written = entry.written
    command, args = entry.text("command"), entry.texts("args")
    return LspSettings(
        name=entry.name,
        command=command,
        args=args,
        env=entry.environment(),
        filetypes=tuple(
            kind.strip().removeprefix("*").removeprefix(".").lower()
            for kind in written.get("filetypes") or ()
            if kind.strip("*. ")
        ),
        root_markers=tuple(written.get("root_markers") or ()),
        init_options=written.get("init_options") or {},
        options=written.get("options") or {},
        timeout_seconds=entry.seconds(TIMEOUT_SECONDS),
        is_disabled=bool(written.get("disabled") or entry.fault),
        fault="" if written.get("disabled") else entry.fault,
    )
