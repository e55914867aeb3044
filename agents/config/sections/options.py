"""Fills in the defaults of ``options``, and lists the folders that may contain skills. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from agents.config.parse import Tree

# Files with rules for other programs. Well-known names such as AGENTS.md are always read,
# independently of the configuration.
CONTEXT_PATHS = (".cursor/rules/", ".cursorrules", ".github/copilot-instructions.md")
INITIALIZE_AS = "AGENTS.md"
SKILL_PATHS_LIMIT = 100
# Searched in the workspace, in this order.
PROJECT_SKILL_FOLDERS = (".crush/skills", ".agents/skills", ".claude/skills")
TRAILER_STYLES = ("assisted-by", "co-authored-by", "none")


def complete_options(
    written: Mapping[str, Any], *, home: str, config_home: str, data_directory: str
) -> Tree:
    def absolute(path: str) -> str:
        return f"{home}{path[1:]}" if path == "~" or path.startswith("~/") else path

    tui = dict(written.get("tui") or {})
    tui["completions"] = {"max_depth": 2, "max_items": 100} | (tui.get("completions") or {})
    return dict(written) | {
        "attribution": _attribution(written.get("attribution") or {}),
        "context_paths": _joined(CONTEXT_PATHS, written.get("context_paths")),
        "data_directory": data_directory,
        "global_context_paths": [
            absolute(path)
            for path in _joined(
                (f"{home}/AGENTS.md", f"{config_home}/crush/CRUSH.md"),
                written.get("global_context_paths"),
            )
        ],
        "initialize_as": written.get("initialize_as") or INITIALIZE_AS,
        "skills_paths": [
            absolute(path)
            for path in _joined(
                (
                    f"{config_home}/crush/skills",
                    f"{config_home}/agents/skills",
                    f"{home}/.agents/skills",
                ),
                written.get("skills_paths"),
            )
        ],
        "tui": tui,
    }


def _attribution(written: Mapping[str, Any]) -> Tree:
    given: Tree = {name: value for name, value in written.items() if value is not None}
    if given.get("trailer_style") not in TRAILER_STYLES:
        # Older files use a flag.
        old = {None: TRAILER_STYLES[0], True: "co-authored-by", False: "none"}
        given["trailer_style"] = old.get(given.get("co_authored_by"), TRAILER_STYLES[0])
    return {"generated_with": True} | given


def _joined(first: tuple[str, ...], more: list[str] | None) -> list[str]:
    return list(dict.fromkeys((*first, *(more or ()))))


def skill_folders(
    workspace: str, configured: Sequence[str], *, server_env: Mapping[str, str]
) -> tuple[str, ...]:
    """Returns the absolute paths of folders that may contain skills, the project's last.

    In ``configured`` every ``~`` is expanded; a relative path is relative to the workspace.
    """
    own = server_env.get("CRUSH_SKILLS_DIR", "")
    named = (
        *((own,) if own.startswith("/") else ()),
        *configured[:SKILL_PATHS_LIMIT],
        *PROJECT_SKILL_FOLDERS,
    )
    absolute = (
        os.path.normpath(PurePath(workspace, name))
        for name in named
        if name.strip() and "\0" not in name
    )
    return tuple(dict.fromkeys(absolute))
