"""The rows of background commands: written before a command does anything, and ended once.

If two processes end the same job, the first end stays. A user command has such a row
too, with the id of its message.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

from agents.states import UNENDED_JOB, JobState, in_sql
from agents.tools.shell.jobs import JobReport
from workspaces.log.rows import placeholders
from workspaces.log.statements import statements
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.queries.workspaces import require_open

_IS_USERS = "EXISTS (SELECT 1 FROM workspaces_message m WHERE m.id = j.id)"


@dataclass(frozen=True, slots=True)
class JobRow:
    id: str
    workspace_id: str
    session_id: str
    command: str
    description: str
    working_dir: str
    instance: str
    host: str
    pid: int
    pid_started: str
    process_mark: str
    output_path: str = ""  # empty for a user command, whose output is in its message
    supervisor: str = ""  # as ``instance``: its number and start time
    token: str = ""  # names the command's file, where a supervisor may keep it
    columns: int = 0


_COLUMNS = ", ".join(field.name for field in fields(JobRow))


def record_job(tx: Transaction, job: JobRow) -> None:
    """Writes a new job's row. Raises ``WorkspaceUnknown`` if the workspace was closed meanwhile."""
    tx.lock(job.workspace_id)
    require_open(job.workspace_id)
    tx.execute(
        f"INSERT INTO agents_job ({_COLUMNS}, state, started_at)"
        f" VALUES ({placeholders(len(fields(JobRow)) + 2)})",
        [*astuple(job), JobState.RUNNING.value, tx.now],
    )


def forget_old_jobs(tx: Transaction, workspace_id: str, *, kept: int) -> list[str]:
    """Deletes the rows of all but the newest ended jobs; returns the paths of their output."""
    rows = tx.fetch(
        f"SELECT id, output_path FROM agents_job WHERE workspace_id = %s AND state <> '{JobState.RUNNING}'"
        " ORDER BY started_at DESC, id LIMIT 1000 OFFSET %s",
        [workspace_id, kept],
    )
    for job_id, _ in rows:
        tx.execute("DELETE FROM agents_job WHERE id = %s", [job_id])
    return [path for _, path in rows if path]


def end_job(tx: Transaction, job_id: str, *, exit_code: int) -> None:
    """Writes a command's end. The state becomes ``ended`` unless it was killed before."""
    changed = tx.change(
        "UPDATE agents_job SET exit_code = %s, ended_at = COALESCE(ended_at, %s),"
        f" state = CASE WHEN state = '{JobState.RUNNING}' THEN '{JobState.ENDED}' ELSE state END"
        f" WHERE id = %s AND state IN {in_sql(UNENDED_JOB)} AND exit_code IS NULL",
        [exit_code, tx.now, job_id],
    )
    if changed:
        _announce(tx, job_id)


def _announce(tx: Transaction, job_id: str) -> None:
    """Appends the event of a job's end. That of a user command is its message's."""
    names = "id, session_id, command, description, working_dir, state, exit_code"
    for workspace_id, started_at, ended_at, *values in tx.fetch(
        f"SELECT workspace_id, started_at, ended_at, {names} FROM agents_job"
        " WHERE id = %s AND output_path <> ''",
        [job_id],
    ):
        job = dict(zip(names.split(", "), values, strict=True))
        job |= {"started_at": started_at // 1000, "ended_at": ended_at // 1000}
        tx.append(workspace_id, Kind.JOB_ENDED, {"job": job}, session_id=job["session_id"])


def kill_job(tx: Transaction, job_id: str) -> bool:
    """Marks a job as killed, for its host to end it; returns whether it was still running."""
    changed = tx.change(
        f"UPDATE agents_job SET state = '{JobState.KILLED}', ended_at = %s"
        f" WHERE id = %s AND state = '{JobState.RUNNING}'",
        [tx.now, job_id],
    )
    return changed > 0


def kill_users_commands(tx: Transaction, session_id: str) -> None:
    """Marks the user commands of a cancelled session as killed."""
    tx.execute(
        f"UPDATE agents_job SET state = '{JobState.KILLED}', ended_at = %s"
        f" WHERE state = '{JobState.RUNNING}' AND session_id = %s AND id IN"
        " (SELECT id FROM workspaces_message WHERE session_id = %s AND is_finished = %s)",
        [tx.now, session_id, session_id, False],
    )


def lose_job(tx: Transaction, job: JobRow) -> bool:
    """Ends a job whose server died.

    Returns ``False`` if its end was written before, or another server has taken it.
    """
    changed = tx.change(
        "UPDATE agents_job SET ended_at = COALESCE(ended_at, %s),"
        f" exit_code = CASE WHEN state = '{JobState.KILLED}' THEN 137 END,"
        f" state = CASE WHEN state = '{JobState.KILLED}' THEN state ELSE '{JobState.LOST}' END"
        f" WHERE id = %s AND instance = %s AND state IN {in_sql(UNENDED_JOB)}"
        " AND exit_code IS NULL",
        [tx.now, job.id, job.instance],
    )
    if changed:
        _announce(tx, job.id)
    return changed > 0


def running_elsewhere(instance: str) -> list[JobRow]:
    """Returns the unfinished jobs of other servers, which may have died."""
    with statements() as cursor:
        cursor.execute(
            f"SELECT {_COLUMNS} FROM agents_job WHERE state IN {in_sql(UNENDED_JOB)}"
            " AND exit_code IS NULL AND instance <> %s LIMIT 1000",
            [instance],
        )
        return [JobRow(*row) for row in cursor.fetchall()]


def take_job(tx: Transaction, job: JobRow, *, instance: str) -> bool:
    """Gives a dead server's job to this server; returns whether no other was faster."""
    changed = tx.change(
        "UPDATE agents_job SET instance = %s WHERE id = %s AND instance = %s AND exit_code IS NULL"
        f" AND state IN {in_sql(UNENDED_JOB)}",
        [instance, job.id, job.instance],
    )
    return changed > 0


def unended_tokens() -> set[str]:
    """Returns the tokens of all jobs whose end is not written yet."""
    with statements() as cursor:
        cursor.execute(
            f"SELECT token FROM agents_job WHERE state IN {in_sql(UNENDED_JOB)}"
            " AND exit_code IS NULL AND token <> ''"
        )
        return {row[0] for row in cursor.fetchall()}


def to_be_ended(instance: str, ids: list[str]) -> list[str]:
    """Returns those of these jobs of this server that must end.

    They were killed, or announced as lost while this server was away, or their workspace closed.
    """
    if not ids:
        return []
    with statements() as cursor:
        cursor.execute(
            "SELECT j.id FROM agents_job j JOIN workspaces_workspace w ON w.id = j.workspace_id"
            f" WHERE j.instance = %s AND j.id IN ({placeholders(len(ids))})"
            f" AND (j.state IN ('{JobState.KILLED}', '{JobState.LOST}')"
            f" OR (j.state = '{JobState.RUNNING}' AND w.is_open = %s))",
            [instance, *ids, False],
        )
        return [row[0] for row in cursor.fetchall()]


def messages_gone(ids: list[str]) -> list[str]:
    """Returns those of these user commands whose session was deleted."""
    if not ids:
        return []
    with statements() as cursor:
        cursor.execute(
            f"SELECT id FROM workspaces_message WHERE id IN ({placeholders(len(ids))})", ids
        )
        there = {row[0] for row in cursor.fetchall()}
    return [job_id for job_id in ids if job_id not in there]


@dataclass(frozen=True, slots=True)
class FoundJob:
    report: JobReport  # without its output
    output_path: str


def find_job(workspace_id: str, job_id: str) -> FoundJob | None:
    with statements() as cursor:
        cursor.execute(
            "SELECT id, command, description, working_dir, state, exit_code, output_path"
            " FROM agents_job WHERE id = %s AND workspace_id = %s",
            [job_id, workspace_id],
        )
        row = cursor.fetchone()
    if row is None:
        return None
    shell_id, command, description, working_dir, state, exit_code, output_path = row
    report = JobReport(shell_id, command, description, working_dir, state, exit_code, output="")
    return FoundJob(report, output_path)


def running_ids(workspace_id: str) -> list[str]:
    """Returns the running jobs of a workspace, without user commands."""
    with statements() as cursor:
        cursor.execute(
            "SELECT j.id FROM agents_job j WHERE j.workspace_id = %s"
            f" AND j.state = '{JobState.RUNNING}' AND NOT {_IS_USERS} ORDER BY j.started_at, j.id",
            [workspace_id],
        )
        return [row[0] for row in cursor.fetchall()]
