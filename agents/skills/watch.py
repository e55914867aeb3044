"""Tells clients of a workspace's skills: when it opens, and when they change.

Looks by itself every few seconds, because files change without a word, and a
workspace may have been opened by another process. Serves as a workspace's service.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cache, partial

from agents.skills.cache import SkillShelf, skill_shelf
from agents.skills.skill import SkillState
from agents.skills.states import shown_states, tell_skills
from workspaces.queries.workspaces import list_open_workspaces
from workspaces.storage.errors import Refusal
from workspaces.storage.reader import read
from workspaces.storage.writer import writer

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0


class SkillWatch:
    def __init__(self, shelf: SkillShelf) -> None:
        self._shelf = shelf
        self._told: dict[str, tuple[SkillState, ...]] = {}

    async def watch_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                open_now = [workspace.id for workspace in await read(list_open_workspaces)]
                for closed in self._told.keys() - open_now:
                    await self.close(closed)
                for workspace_id in open_now:
                    await self._look(workspace_id)
            except Exception:
                logger.exception("looking for skills failed; the next round tries again")

    async def open(self, workspace_id: str) -> None:
        await self._look(workspace_id)

    def hosted(self) -> frozenset[str]:
        return frozenset(self._told)

    async def close(self, workspace_id: str) -> None:
        self._told.pop(workspace_id, None)
        self._shelf.forget(workspace_id)

    async def stop(self) -> None:
        self._told.clear()

    async def _look(self, workspace_id: str) -> None:
        try:
            states = (await self._shelf.found_in(workspace_id, newest=True)).states
            if self._told.get(workspace_id) == states:
                return
            tell = partial(tell_skills, workspace_id=workspace_id, states=shown_states(states))
            await writer.write(workspace_id, tell)
        except Refusal:
            return  # closed meanwhile, or the server stops
        self._told[workspace_id] = states


@cache
def skill_watch() -> SkillWatch:
    """The process's own."""
    return SkillWatch(skill_shelf())
