"""Notifies clients of a workspace's skills: when it opens, and when they change.

Checks every few seconds, because files change unnoticed and another process may have opened the
workspace. Registered as a service of workspaces.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

import orjson

from agents.skills.cache import SkillCache, skill_cache
from agents.skills.skill import SkillState
from workspaces.log.errors import Refusal
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.log.writer import writer
from workspaces.queries.workspaces import list_open_workspaces, require_open

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
_LOOKED_BACK = 5_000  # events


def shown_states(states: Iterable[SkillState]) -> list[dict[str, Any]]:
    return [
        {"name": state.name, "path": state.path, "state": int(state.health)}
        | ({"error": state.error} if state.error else {})
        for state in states
    ]


def notify_skills(tx: Transaction, *, workspace_id: str, states: Sequence[dict[str, Any]]) -> None:
    """Appends the states, unless they are the newest since the workspace opened.

    Each process that works checks by itself; the first one that sees a change notifies clients.
    Raises ``WorkspaceUnknown``.
    """
    newest = tx.next_number(workspace_id) - 1
    require_open(workspace_id)
    rows = tx.fetch(
        "SELECT kind, payload FROM workspaces_event WHERE workspace_id = %s AND number > %s"
        " AND kind IN (%s, %s) ORDER BY number DESC LIMIT 1",
        [workspace_id, newest - _LOOKED_BACK, Kind.SKILLS_CHANGED, Kind.WORKSPACE_OPENED],
    )
    if rows and rows[0][0] == Kind.SKILLS_CHANGED and orjson.loads(rows[0][1])["states"] == states:
        return
    tx.append(workspace_id, Kind.SKILLS_CHANGED, {"states": states})


class SkillWatch:
    def __init__(self, cache_of_skills: SkillCache) -> None:
        self._cache = cache_of_skills
        self._notified: dict[str, tuple[SkillState, ...]] = {}

    async def watch_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                open_now = [workspace.id for workspace in await read(list_open_workspaces)]
                for closed in self._notified.keys() - open_now:
                    await self.close(closed)
                for workspace_id in open_now:
                    await self._look(workspace_id)
            except Exception:
                logger.exception("looking for skills failed; the next round tries again")

    async def open(self, workspace_id: str) -> None:
        await self._look(workspace_id)

    def hosted(self) -> frozenset[str]:
        return frozenset(self._notified)

    async def close(self, workspace_id: str) -> None:
        self._notified.pop(workspace_id, None)
        self._cache.forget(workspace_id)

    async def stop(self) -> None:
        self._notified.clear()

    async def _look(self, workspace_id: str) -> None:
        try:
            states = (await self._cache.found_in(workspace_id, newest=True)).states
            if self._notified.get(workspace_id) == states:
                return
            notify = partial(notify_skills, workspace_id=workspace_id, states=shown_states(states))
            await writer.write(workspace_id, notify)
        except Refusal:
            return  # closed meanwhile, or the server stops
        self._notified[workspace_id] = states


@cache
def skill_watch() -> SkillWatch:
    """The process's only watch."""
    return SkillWatch(skill_cache())
