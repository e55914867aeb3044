"""Caches the skills of workspaces while their files are unchanged."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import cache

from agents.config.cache import configs
from agents.skills.discover import FoundSkills, find_skills
from agents.skills.skill import Skill
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.models import Workspace

LOOK_SECONDS = 1.0
KEPT = 500


@dataclass(frozen=True, slots=True)
class _CachedSkills:
    found: FoundSkills
    looked_at: float


class SkillCache:
    def __init__(self) -> None:
        self._entries: dict[str, _CachedSkills] = {}

    async def skills_of(self, workspace_id: str, *, newest: bool = False) -> tuple[Skill, ...]:
        """Returns the enabled skills. Raises ``WorkspaceUnknown``."""
        config = await configs().config_of(workspace_id)
        found = await self.found_in(workspace_id, newest=newest)
        return found.enabled(config.settings.disabled_skills)

    async def found_in(self, workspace_id: str, *, newest: bool = False) -> FoundSkills:
        """Returns all skills that were found. ``newest``: checks the files even if just checked."""
        entry = self._entries.get(workspace_id)
        age = LOOK_SECONDS if entry is None else time.monotonic() - entry.looked_at
        if entry is not None and age < LOOK_SECONDS and not newest:
            return entry.found
        config = await configs().config_of(workspace_id)
        path = await read(_path_of, workspace_id)
        now = time.monotonic()
        # Not in a reading thread: a slow disk must not delay other queries.
        found = await asyncio.to_thread(
            find_skills,
            path,
            config.settings.skills_paths,
            known=entry.found if entry is not None else None,
        )
        while len(self._entries) >= KEPT:
            self._entries.pop(next(iter(self._entries)))
        self._entries[workspace_id] = _CachedSkills(found, now)
        return found

    def forget(self, workspace_id: str) -> None:
        self._entries.pop(workspace_id, None)


def _path_of(workspace_id: str) -> str:
    # Also for a closed workspace: its last run may still be ending.
    path = Workspace.objects.filter(pk=workspace_id).values_list("path", flat=True).first()
    if path is None:
        raise WorkspaceUnknown
    return path


@cache
def skill_cache() -> SkillCache:
    """The process's only cache."""
    return SkillCache()
