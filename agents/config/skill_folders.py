"""Which folders may hold skills, from the user's to the project's. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath

PATHS_LIMIT = 100
# In the workspace, in the order in which they are looked through.
PROJECT_FOLDERS = (".crush/skills", ".agents/skills", ".claude/skills")


def skill_folders(
    workspace: str, configured: Sequence[str], *, server_env: Mapping[str, str]
) -> tuple[str, ...]:
    """Absolute. ``configured`` has its ``~`` expanded; relative ones lie in the workspace."""
    own = server_env.get("CRUSH_SKILLS_DIR", "")
    named = (
        *((own,) if own.startswith("/") else ()),
        *configured[:PATHS_LIMIT],
        *PROJECT_FOLDERS,
    )
    absolute = (
        os.path.normpath(PurePath(workspace, name))
        for name in named
        if name.strip() and "\0" not in name
    )
    return tuple(dict.fromkeys(absolute))
