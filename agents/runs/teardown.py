"""Letting go of workspaces: by a client, by a client's retirement, by time."""

from __future__ import annotations

from agents.runs import nudges
from agents.runs.cancel import withdraw_runs
from agents.runs.teardown_rule import close_if_left
from workspaces.actions import claims
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Workspace


async def release(workspace_id: str, client_id: str) -> None:
    """The client lets go at once; the last one's going closes the workspace."""
    await writer.write(workspace_id, lambda tx: release_workspace(tx, workspace_id, client_id))


def release_workspace(tx: Transaction, workspace_id: str, client_id: str) -> None:
    if not Workspace.objects.filter(pk=workspace_id, is_open=True).exists():
        raise WorkspaceUnknown
    claims.release_claim(tx, workspace_id, client_id)
    close_if_left(tx, workspace_id)


async def retire(client_id: str) -> None:
    """The client is gone for good, from every workspace, and its runs with a ``run_id`` end."""
    held = await writer.write("", lambda tx: retire_everywhere(tx, client_id))
    if held:
        await nudges.nudge_withdrawn(held)


def retire_everywhere(tx: Transaction, client_id: str) -> list[int]:
    """Returns the keys of the runs that a worker must abort."""
    workspaces = claims.retire_client(tx, client_id)
    held = withdraw_runs(tx, client_id)
    for workspace_id in workspaces:
        close_if_left(tx, workspace_id)
    return held


async def sweep() -> None:
    """Drops the claims whose time is over and closes what nobody holds any more."""
    await writer.write("", sweep_lapsed)


def sweep_lapsed(tx: Transaction) -> None:
    for workspace_id in claims.drop_lapsed_claims(tx):
        close_if_left(tx, workspace_id)


def start_alone(tx: Transaction) -> None:
    """At the start of a server that is alone on its data: nobody is attached.

    Workspaces with unfinished runs stay open, others wait for their path.
    """
    claims.drop_all_claims(tx)
    for workspace_id in Workspace.objects.filter(is_open=True).values_list("pk", flat=True):
        close_if_left(tx, workspace_id)
