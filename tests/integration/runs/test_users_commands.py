"""A user's own command: one message that grows and ends, whatever becomes of its server."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from agents.jobs.rows import JobRow, lose_job
from agents.jobs.shell_command import (
    INTERRUPTED,
    finish_command,
    keep_output,
    settle_lost,
    start_command,
)
from agents.models import Job
from agents.runs.cancel import cancel_session, mark_deleted
from tests.integration.runs.ground import Ground, open_ground, write
from workspaces.log.errors import SessionUnknown
from workspaces.models import Message, Session


def command(ground: Ground, session_id: str = "") -> JobRow:
    return JobRow(
        id="",
        workspace_id=ground.workspace_id,
        session_id=session_id or ground.session_id,
        command="make",
        description="",
        working_dir="/project",
        instance="server",
        host="host",
        pid=7,
        pid_started="7/1",
        process_mark="mark",
    )


def start(ground: Ground, session_id: str = "") -> JobRow:
    return write(lambda tx: start_command(tx, command(ground, session_id)))


def parts(job: JobRow) -> list[dict[str, Any]]:
    return list(orjson.loads(Message.objects.get(pk=job.id).parts))


def test_a_command_is_a_message_and_a_job_of_one_id(ground: Ground) -> None:
    job = start(ground)
    message = Message.objects.get(pk=job.id)
    assert (message.role, message.is_finished) == ("user", False)
    assert parts(job)[0]["data"] == {"command": "make", "output": "", "exit_code": 0}
    assert Job.objects.get(pk=job.id).state == "running"
    (started,) = ground.events("message.started")
    assert started["message"]["id"] == job.id


def test_a_commands_session_must_be_there(ground: Ground) -> None:
    other = open_ground("/other")
    for session_id in ("unknown", other.session_id):
        with pytest.raises(SessionUnknown):
            start(ground, session_id)
    Session.objects.filter(pk=ground.session_id).update(is_deleting=True)
    with pytest.raises(SessionUnknown):
        start(ground)
    assert not Job.objects.exists()


def test_its_output_is_kept_and_its_end_told(ground: Ground) -> None:
    job = start(ground)
    write(lambda tx: keep_output(tx, job, "so far"))
    assert parts(job)[0]["data"] == {"command": "make", "output": "so far", "exit_code": 0}
    write(lambda tx: finish_command(tx, job, output="all of it", exit_code=3))

    shell, finish = parts(job)
    assert shell["data"] == {"command": "make", "output": "all of it", "exit_code": 3}
    assert finish["data"]["reason"] == "stop"
    row = Job.objects.get(pk=job.id)
    assert (row.state, row.exit_code) == ("ended", 3)
    assert len(ground.events("message.finished")) == 1


def test_the_end_of_a_command_whose_session_was_deleted_is_told_to_nobody(ground: Ground) -> None:
    start(ground, ground.new_session())
    job = start(ground)
    write(lambda tx: mark_deleted(tx, ground.workspace_id, ground.session_id))
    write(lambda tx: finish_command(tx, job, output="x", exit_code=0))
    assert ground.events("message.finished") == []


def test_a_cancel_of_its_session_ends_it_and_no_other(ground: Ground) -> None:
    mine, other = start(ground), start(ground, ground.new_session())
    done = start(ground)
    write(lambda tx: finish_command(tx, done, output="", exit_code=0))
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))
    assert Job.objects.get(pk=mine.id).state == "killed"
    assert Job.objects.get(pk=other.id).state == "running"
    assert Job.objects.get(pk=done.id).state == "ended"


def test_a_command_whose_server_died_ends_with_what_was_kept(ground: Ground) -> None:
    start(ground)
    job = start(ground)
    write(lambda tx: keep_output(tx, job, "so far"))

    write(lambda tx: settle_lost(tx, job))
    write(lambda tx: settle_lost(tx, job))

    shell, finish = parts(job)
    assert shell["data"] == {"command": "make", "output": "so far", "exit_code": 137}
    assert finish["data"]["message"] == INTERRUPTED
    assert Job.objects.get(pk=job.id).state == "lost"
    # The server lives after all, and sees its end.
    write(lambda tx: finish_command(tx, job, output="all of it", exit_code=0))
    assert len(ground.events("message.finished")) == 1


def test_a_command_that_ended_is_not_lost_as_well(ground: Ground) -> None:
    job = start(ground)
    write(lambda tx: finish_command(tx, job, output="x", exit_code=0))
    write(lambda tx: settle_lost(tx, job))
    assert Job.objects.get(pk=job.id).state == "ended"
    assert parts(job)[0]["data"]["exit_code"] == 0


def test_a_background_job_without_a_message_is_lost_without_one(ground: Ground) -> None:
    job = start(ground)
    Message.objects.all().delete()
    write(lambda tx: settle_lost(tx, job))
    assert Job.objects.get(pk=job.id).state == "lost"
    assert not write(lambda tx: lose_job(tx, job))
