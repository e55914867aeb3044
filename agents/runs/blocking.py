"""Cancelling and releasing for threads: the admin's and the commands'.

The same jobs and nudges as the API's, without its loop. Without a running
writer a job is carried out right here. Must not be called on an event loop.
"""

from __future__ import annotations

from asgiref.sync import async_to_sync

from agents.runs import nudges
from agents.runs.cancel import cancel_session
from agents.runs.rows import unfinished_runs
from agents.runs.teardown_rule import close_if_left
from workspaces.actions import claims
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import ClientClaim, Workspace


def cancel_and_wait(workspace_id: str, session_id: str) -> int:
    """Cancels what was accepted in the session; returns how many prompts that were.

    Raises ``SessionUnknown``. What a worker holds ends a moment later.
    """

    def job(tx: Transaction) -> tuple[int, int | None]:
        count = len(unfinished_runs(tx, session_id))
        return count, cancel_session(tx, workspace_id, session_id)

    count, up_to = writer.write_and_wait(workspace_id, job)
    if up_to is not None:
        async_to_sync(nudges.send_cancelled)(session_id, up_to=up_to)
    return count


def release_all_and_wait(workspace_id: str) -> tuple[list[str], bool]:
    """Takes every client's claim away; returns the clients, and whether the workspace closed.

    With work in it the workspace closes by itself, after that has ended.
    """

    def job(tx: Transaction) -> tuple[list[str], bool]:
        held = ClientClaim.objects.filter(workspace_id=workspace_id).order_by("client_id")
        clients = list(held.values_list("client_id", flat=True))
        for client_id in clients:
            claims.release_claim(tx, workspace_id, client_id)
        close_if_left(tx, workspace_id)
        return clients, not Workspace.objects.filter(pk=workspace_id, is_open=True).exists()

    return writer.write_and_wait(workspace_id, job)
