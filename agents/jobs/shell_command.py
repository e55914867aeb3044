"""Writes the message of a user command: at its start, with new output, and at its end.

The message's row and the job's row are written together and have the same id, so that
one can be found by the other after a crash.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from agents.jobs.rows import JobRow, end_job, lose_job, record_job
from workspaces.actions import messages
from workspaces.log.errors import SessionUnknown
from workspaces.log.parts import (
    Finish,
    FinishReason,
    Parts,
    ShellCommand,
    parts_from_wire,
)
from workspaces.log.transaction import Transaction

KILLED = 137
INTERRUPTED = "Interrupted: the server stopped while the command ran."


def start_command(tx: Transaction, job: JobRow) -> JobRow:
    """Writes message and job; returns the job with its id.

    Raises ``SessionUnknown`` or ``WorkspaceUnknown``.
    """
    known = tx.fetch(
        "SELECT 1 FROM workspaces_session WHERE id = %s AND workspace_id = %s AND is_deleting = %s",
        [job.session_id, job.workspace_id, False],
    )
    if not known:
        raise SessionUnknown
    command = ShellCommand(job.command, "", 0)
    message = messages.start_command_message(tx, job.workspace_id, job.session_id, command=command)
    job = replace(job, id=message["id"])
    record_job(tx, job)
    return job


def keep_output(tx: Transaction, job: JobRow, output: str) -> None:
    """Saves the output so far. Appends no event, because readers already have the output."""
    messages.checkpoint_message(tx, job.id, parts=(ShellCommand(job.command, output, 0),))


def finish_command(tx: Transaction, job: JobRow, *, output: str, exit_code: int) -> None:
    end_job(tx, job.id, exit_code=exit_code)
    if _is_open(tx, job.id):  # it is not if its session was deleted
        parts = (ShellCommand(job.command, output, exit_code), Finish(FinishReason.STOP))
        messages.finish_message(tx, job.workspace_id, job.id, parts=parts)


def settle_lost(tx: Transaction, job: JobRow, output: str | None = None) -> None:
    """Ends a job whose server died; a user command's message keeps the last saved output."""
    if not lose_job(tx, job) or not _is_open(tx, job.id):
        return
    rows = tx.fetch("SELECT parts FROM workspaces_message WHERE id = %s", [job.id])
    kept = parts_from_wire(orjson.loads(rows[0][0]))
    ended = (
        replace(part, exit_code=KILLED, output=part.output if output is None else output)
        for part in kept
        if isinstance(part, ShellCommand)
    )
    parts: Parts = (*ended, Finish(FinishReason.STOP, message=INTERRUPTED))
    messages.finish_message(tx, job.workspace_id, job.id, parts=parts)


def _is_open(tx: Transaction, message_id: str) -> bool:
    rows = tx.fetch(
        "SELECT 1 FROM workspaces_message WHERE id = %s AND is_finished = %s", [message_id, False]
    )
    return bool(rows)
