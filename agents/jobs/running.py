"""The background commands of all servers of a database, for those who look after it."""

from __future__ import annotations

from typing import NamedTuple

from agents.models import Job
from agents.states import UNENDED_JOB
from agents.tools.shell import identity

MOST = 1_000


class BackgroundCommand(NamedTuple):
    id: str
    pid: int
    kind: str  # job or user command
    host: str
    started_at: int
    state: str
    session_id: str
    command: str  # its first line


def background_commands() -> list[BackgroundCommand]:
    """Returns the commands whose end is not stored yet, the oldest first. Synchronous."""
    unended = Job.objects.filter(state__in=UNENDED_JOB, exit_code=None)
    return [_command(job) for job in unended.order_by("started_at", "id")[:MOST]]


def _command(job: Job) -> BackgroundCommand:
    return BackgroundCommand(
        job.pk,
        job.pid,
        "job" if job.output_path else "user command",
        job.host.partition(" ")[0],
        job.started_at,
        _state(job),
        job.session_id,
        job.command.strip().partition("\n")[0],
    )


def _state(job: Job) -> str:
    if job.host != identity.this_host():
        return "on another host"
    if identity.is_server_alive(job.instance):
        return "live"
    return "kept" if identity.is_server_alive(job.supervisor) else "without a server"
