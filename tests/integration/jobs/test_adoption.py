"""Commands that a server has left: who may take them, and what becomes of the others."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from agents.jobs.adoption import settle
from agents.jobs.host import Keeping, job_host
from agents.jobs.rows import kill_job, running_elsewhere
from agents.models import Job
from agents.tools.shell import identity, kept
from tests.integration.jobs.conftest import Place
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.models import Event, Workspace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

DEAD = "999999999@gone/1"


async def start(place: Place) -> None:
    """The next server."""
    job_host.cache_clear()
    place.host = job_host()
    keeping = Keeping(folder=place.path / "commands", seconds=60)
    # Other hosts and processes exist, so that nothing is settled before the test says so.
    await place.host.start(server_mark=new_id(), is_alone=False, settle=settle, keeping=keeping)


@pytest_asyncio.fixture
async def left(place: Place) -> AsyncIterator[Job]:
    """A job whose server has stopped."""
    await place.host.stop()
    await start(place)
    job_id = await place.jobs.start(place.order("echo begun; exec sleep 600"))
    async with asyncio.timeout(60):
        while (await place.jobs.report(job_id)).output != "begun\n":
            await asyncio.sleep(0.02)
    await place.host.stop()
    await change(job_id, "instance", DEAD)
    yield await place.row(job_id)
    await place.host.stop()
    for file in (place.path / "commands").iterdir():
        file.unlink()
    row = await read(Job.objects.filter(pk=job_id).first)
    if row is not None:
        await gone(row)


async def change(job_id: str, column: str, value: str) -> None:
    await writer.write(
        "",
        lambda tx: tx.execute(
            f"UPDATE agents_job SET {column} = %s WHERE id = %s", [value, job_id]
        ),
    )


async def gone(job: Job) -> None:
    async with asyncio.timeout(60):
        while await asyncio.to_thread(identity.started, job.pid):
            await asyncio.sleep(0.05)


async def until(place: Place, job: Job, fits: Callable[[Job], bool]) -> Job:
    async with asyncio.timeout(60):
        while not fits(row := await place.row(job.pk)):
            await asyncio.sleep(0.05)
    return row


async def ends(job: Job) -> list[tuple[str, int | None]]:
    """What the log announces about the job's end."""
    events = Event.objects.filter(kind="job.ended", session_id=job.session_id)
    payloads = await read(lambda: [json.loads(event.payload) for event in events])
    return [
        (each["job"]["state"], each["job"]["exit_code"])
        for each in payloads
        if each["job"]["id"] == job.pk
    ]


async def test_a_job_that_was_left_runs_and_the_next_server_takes_it(
    place: Place, left: Job
) -> None:
    assert identity.started(left.pid) == left.pid_started
    assert left.state == "running"
    await start(place)
    await place.host.end_lost(is_alone=False)
    report = await place.jobs.report(left.pk)
    assert (report.state, report.output) == ("running", "begun\n")
    assert (await place.row(left.pk)).instance == identity.this_server()
    await place.jobs.kill(left.pk)
    row = await place.row(left.pk)
    assert (row.state, row.exit_code) == ("killed", 137)
    assert await ends(left) == [("killed", 137)]
    await gone(left)
    assert list((place.path / "commands").iterdir()) == []


async def test_of_two_servers_one_takes_it(place: Place, left: Job) -> None:
    await start(place)
    rows = await read(running_elsewhere, "another")
    await asyncio.gather(*(settle(replace(row, instance=DEAD)) for row in [*rows, *rows]))
    await place.host.end_lost(is_alone=False)
    assert (await place.jobs.report(left.pk)).state == "running"
    # The second to connect gets no answer while the first has the command.
    taken = await asyncio.to_thread(
        kept.take, left.token, mark=left.process_mark, supervisor_pid=number(left)
    )
    assert taken is None
    assert identity.started(left.pid) == left.pid_started


def number(job: Job) -> int:
    return int(job.supervisor.partition("@")[0])


async def test_one_that_was_killed_meanwhile_ends(place: Place, left: Job) -> None:
    await writer.write("", lambda tx: kill_job(tx, left.pk))
    await start(place)
    await until(place, left, lambda row: row.exit_code == 137)
    await gone(left)
    assert (await place.jobs.report(left.pk)).state == "killed"


async def test_one_whose_workspace_has_closed_ends(place: Place, left: Job) -> None:
    await read(Workspace.objects.filter(pk=place.workspace_id).update, is_open=False)
    await start(place)
    await until(place, left, lambda row: row.state == "killed")
    await gone(left)


async def test_one_whose_row_is_gone_ends(place: Place, left: Job) -> None:
    await writer.write("", lambda tx: tx.execute("DELETE FROM agents_job WHERE id = %s", [left.pk]))
    await start(place)
    await gone(left)
    assert list((place.path / "commands").iterdir()) == []


async def test_one_whose_supervisor_died_is_lost_with_its_output(place: Place, left: Job) -> None:
    os.kill(number(left), signal.SIGKILL)
    await start(place)
    await until(place, left, lambda row: row.state == "lost")
    await gone(left)
    report = await place.jobs.report(left.pk)
    assert (report.state, report.exit_code, report.output) == ("lost", None, "begun\n")
    assert await ends(left) == [("lost", None)]


async def test_one_of_another_host_is_lost_for_a_server_that_is_alone(
    place: Place, left: Job
) -> None:
    await change(left.pk, "host", "another")
    await start(place)
    await place.host.end_lost(is_alone=True)
    report = await place.jobs.report(left.pk)
    assert (report.state, report.output) == ("lost", "begun\n")


@pytest.mark.parametrize("column", ["supervisor", "process_mark"])
async def test_a_process_that_is_not_the_recorded_one_is_not_taken(
    place: Place, left: Job, column: str
) -> None:
    """A reused number has another start time; a forged mark is not the supervisor's."""
    wrong = {"supervisor": f"{number(left)}@boot/1", "process_mark": new_id()}[column]
    await change(left.pk, column, wrong)
    await start(place)
    row = await until(place, left, lambda row: row.state == "lost")
    assert row.exit_code is None
    assert place.host.find(left.pk) is None
    await gone(left)  # without its file


async def test_a_stranger_that_listens_in_its_place_gets_nothing(tmp_path: Path) -> None:
    token = new_id()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(b"\0crush-command-" + token.encode())
        listener.listen()
        other = os.getppid()
        found = await asyncio.to_thread(kept.take, token, mark="mark", supervisor_pid=other)
        assert found is None
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(100) == b""


async def test_commands_of_a_temporary_server_end_with_it(place: Place) -> None:
    await place.host.stop()
    job_host.cache_clear()
    place.host = job_host()
    keeping = Keeping(folder=place.path / "commands", seconds=60, is_temporary=True)
    await place.host.start(server_mark=new_id(), is_alone=False, settle=settle, keeping=keeping)
    job_id = await place.jobs.start(place.order("exec sleep 600"))
    await place.host.stop()
    row = await place.row(job_id)
    assert (row.state, row.exit_code) == ("killed", 137)
    assert identity.started(row.pid) == ""
