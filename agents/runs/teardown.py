"""Releases workspaces: when a client releases one or retires, and when claims expire."""

from __future__ import annotations

from functools import partial

from asgiref.sync import async_to_sync

from agents.models import Job, Run
from agents.runs import nudges
from agents.runs.cancel import cancel_session, withdraw_runs
from agents.runs.finish import close_if_left, settle_next
from agents.states import JobState, RunState
from workspaces.access import Actor
from workspaces.actions import claims
from workspaces.log.database_clock import were_renewals_lost
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import ClientClaim, Workspace

RETURN_AFTER_OUTAGE_SECONDS = 15.0


async def release(workspace_id: str, client_id: str) -> None:
    """Drops the client's claim; the workspace closes when its last claim is dropped."""
    await writer.write(workspace_id, lambda tx: release_workspace(tx, workspace_id, client_id))


def release_workspace(tx: Transaction, workspace_id: str, client_id: str) -> None:
    if not Workspace.objects.filter(pk=workspace_id, is_open=True).exists():
        raise WorkspaceUnknown
    claims.release_claim(tx, workspace_id, client_id)
    close_if_left(tx, workspace_id)


async def retire(client_id: str, *, actor: Actor | None = None) -> None:
    """Retires a client: drops all its claims, and cancels its runs that have a ``run_id``."""
    held = await writer.write("", lambda tx: retire_everywhere(tx, client_id, actor=actor))
    if held:
        await nudges.nudge_withdrawn(held)


def retire_everywhere(tx: Transaction, client_id: str, *, actor: Actor | None = None) -> list[int]:
    """Retires the client; returns the keys of the runs that a worker must abort."""
    workspaces = claims.retire_client(tx, client_id)
    held = withdraw_runs(tx, client_id, actor=actor)
    for workspace_id in workspaces:
        close_if_left(tx, workspace_id)
    return held


async def sweep(*, is_alone: bool = True) -> None:
    """Drops expired claims and closes the workspaces that no client claims now."""
    # The job looks at the outage, because the writer keeps it meanwhile.
    await writer.write("", partial(sweep_lapsed, is_alone=is_alone))


def sweep_lapsed(tx: Transaction, *, is_alone: bool = True) -> None:
    """``is_alone``: no other process renews claims.

    Otherwise nothing is dropped for some time after an outage of the database: processes and
    clients need it to return.
    """
    if not is_alone and were_renewals_lost(RETURN_AFTER_OUTAGE_SECONDS):
        return
    for workspace_id in claims.drop_lapsed_claims(tx):
        close_if_left(tx, workspace_id)


RETURN_SECONDS = 30.0  # for the clients of background commands, after a restart


def start_alone(tx: Transaction) -> None:
    """Drops the claims, at the start of a server that is alone on its data.

    Workspaces with unfinished runs stay open, and those with background commands for the grace;
    others close until a client opens them again.
    """
    with_jobs = Job.objects.filter(state=JobState.RUNNING).values_list("workspace_id", flat=True)
    claims.drop_claims_except(tx, set(with_jobs), grace_seconds=RETURN_SECONDS)
    for workspace_id in Workspace.objects.filter(is_open=True).values_list("pk", flat=True):
        close_if_left(tx, workspace_id)


def cancel_and_wait(workspace_id: str, session_id: str, *, actor: Actor | None = None) -> int:
    """Cancels the session's accepted runs; returns their number.

    Raises ``SessionUnknown``. A run that a worker holds ends a moment later.
    """

    def job(tx: Transaction) -> tuple[int, int | None]:
        unfinished = Run.objects.filter(session_id=session_id).exclude(state=RunState.FINISHED)
        count = unfinished.count()
        return count, cancel_session(tx, workspace_id, session_id, actor=actor)

    count, up_to = writer.write_and_wait(workspace_id, job)
    if up_to is not None:
        async_to_sync(nudges.send_cancelled)(session_id, up_to=up_to)
        return count
    while writer.write_and_wait(workspace_id, lambda tx: settle_next(tx, workspace_id, session_id)):
        pass
    return count


def release_all_and_wait(workspace_id: str) -> tuple[list[str], bool]:
    """Drops the claims of all clients; returns the clients, and whether the workspace closed.

    A workspace with unfinished work closes when the work has ended.
    """

    def job(tx: Transaction) -> tuple[list[str], bool]:
        held = ClientClaim.objects.filter(workspace_id=workspace_id).order_by("client_id")
        clients = list(held.values_list("client_id", flat=True))
        for client_id in clients:
            claims.release_claim(tx, workspace_id, client_id)
        close_if_left(tx, workspace_id)
        return clients, not Workspace.objects.filter(pk=workspace_id, is_open=True).exists()

    return writer.write_and_wait(workspace_id, job)
