"""Deleting a session: what runs in it is cancelled first."""

from __future__ import annotations

from agents.runs import nudges
from agents.runs.cancel import cancel_session
from agents.runs.erasing import erase_if_marked
from workspaces.actions.sessions import read_session
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Session


async def delete_session(workspace_id: str, session_id: str) -> None:
    """Gone for every client at once; its rows go when its last run has ended."""
    up_to = await writer.write(workspace_id, lambda tx: mark_deleted(tx, workspace_id, session_id))
    if up_to is not None:
        await nudges.nudge_cancelled(session_id, up_to=up_to)


def mark_deleted(tx: Transaction, workspace_id: str, session_id: str) -> int | None:
    read_session(tx, workspace_id, session_id)
    Session.objects.filter(pk=session_id).update(is_deleting=True)
    up_to = cancel_session(tx, workspace_id, session_id)
    if up_to is None:
        erase_if_marked(tx, workspace_id, session_id)
    return up_to
