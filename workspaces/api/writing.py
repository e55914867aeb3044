"""Writes that endpoints ask for: only in a workspace that is open when they are carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.queries.workspaces import require_open

T = TypeVar("T")


async def write_in_open(workspace_id: str, action: Callable[[Transaction], T]) -> T:
    """Raises ``WorkspaceUnknown`` for a closed one."""

    def checked(tx: Transaction) -> T:
        require_open(workspace_id)
        return action(tx)

    return await writer.write(workspace_id, checked)
