"""The background commands that end when a client leaves its workspace."""

from __future__ import annotations

from django.db import DatabaseError, connection

from agents.models import Job, JobState, Run, RunState
from workspaces.models import ClientClaim
from workspaces.storage.moments import now_ms


def jobs_held_by(workspace_id: str, client_id: str) -> list[str]:
    """Their commands, oldest first; none where another client or a run keeps the workspace open.

    Synchronous. Reads the database directly, as other commands do: jobs are no part of the interface.
    """
    try:
        others = ClientClaim.objects.filter(workspace_id=workspace_id, expires_at__gt=now_ms())
        working = (RunState.ACCEPTED, RunState.RUNNING, RunState.READY)
        runs = Run.objects.filter(workspace_id=workspace_id, state__in=working)
        if others.exclude(client_id=client_id).exists() or runs.exists():
            return []
        jobs = Job.objects.filter(workspace_id=workspace_id, state=JobState.RUNNING)
        return list(jobs.order_by("started_at").values_list("command", flat=True))
    except DatabaseError:
        return []  # it is news about the end, not a reason to fail
    finally:
        connection.close()
