"""The commands of a host that does not return: another one announces their end, once."""

from __future__ import annotations

import sys

import pytest

from agents.jobs.adoption import settle
from agents.jobs.host import JobHost, Keeping
from agents.jobs.rows import running_elsewhere, take_job
from agents.models import Job
from agents.tools.shell import identity
from tests.integration.jobs.conftest import Place
from tests.integration.jobs.test_adoption import DEAD, change, ends, gone, left, start, until
from workspaces.actions.processes import ProcessFacts, mark_lost, register
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer

__all__ = ["left"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

FAR = "far pid:[1]"
LATER = 10**15


async def another(place: Place) -> JobHost:
    """A process on a third host."""
    host = JobHost()
    keeping = Keeping(folder=place.path / "other commands", seconds=60)
    await host.start(
        server_mark=new_id(),
        is_alone=False,
        settle=settle,
        keeping=keeping,
        lost_after_seconds=0.0,
    )
    return host


async def register_far() -> str:
    process_id = new_id()
    facts = ProcessFacts("worker", "far", 7, "1", started_at=now_ms(), pid_host=FAR)
    await writer.write("", lambda tx: register(tx, process_id, facts, expires_at=LATER))
    return process_id


async def test_the_end_is_announced_once_and_a_host_that_returns_ends_the_command(
    place: Place, left: Job
) -> None:
    await change(left.pk, "host", FAR)
    far = await register_far()
    other = await another(place)
    await other.end_lost(is_alone=False)
    assert (await place.row(left.pk)).state == "running"

    await writer.write("", lambda tx: mark_lost(tx, far, renewed_until=LATER))
    await other.end_lost(is_alone=False)
    await other.end_lost(is_alone=False)
    assert await ends(left) == [("lost", None)]
    assert identity.started(left.pid) == left.pid_started
    await other.stop()

    await change(left.pk, "host", await read(identity.this_host))
    await start(place)
    await gone(left)
    assert (await place.row(left.pk)).state == "lost"
    assert await ends(left) == [("lost", None)]


@pytest.mark.parametrize(("state", "exit_code"), [("lost", None), ("killed", 137)])
async def test_a_process_that_was_away_ends_what_was_announced_meanwhile(
    place: Place, state: str, exit_code: int | None
) -> None:
    job_id = await place.jobs.start(place.order("exec sleep 600"))
    job = await place.row(job_id)
    await change(job_id, "host", FAR)
    other = await another(place)
    if state == "killed":
        await change(job_id, "state", "killed")
    # It has the same process number, as it runs in this process.
    other.instance = DEAD
    await other.end_lost(is_alone=False)
    await gone(job)
    assert (await place.row(job_id)).state == state
    assert await ends(job) == [(state, exit_code)]
    await other.stop()


async def test_a_command_that_its_host_has_taken_meanwhile_is_not_lost(
    place: Place, left: Job
) -> None:
    await change(left.pk, "host", FAR)
    (row,) = await read(running_elsewhere, "another")
    assert await writer.write("", lambda tx: take_job(tx, row, instance="the next"))
    await settle(row)
    assert (await place.row(left.pk)).state == "running"
    assert await ends(left) == []
    await change(left.pk, "host", await read(identity.this_host))
    await start(place)
    await until(place, left, lambda row: row.instance == identity.this_server())
