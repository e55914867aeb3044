"""Telling clients what became of a workspace's skills."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from agents.skills.skill import SkillState
from workspaces.events.types import Kind
from workspaces.queries.workspaces import require_open
from workspaces.storage.transaction import Transaction

_LOOKED_BACK = 5_000  # events


def shown_states(states: Iterable[SkillState]) -> list[dict[str, Any]]:
    return [
        {"name": state.name, "path": state.path, "state": int(state.health)}
        | ({"error": state.error} if state.error else {})
        for state in states
    ]


def tell_skills(tx: Transaction, *, workspace_id: str, states: Sequence[dict[str, Any]]) -> None:
    """Unless they were told since the workspace opened. Raises ``WorkspaceUnknown``.

    Each process that works looks for itself; the first one that sees a change tells it.
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
