"""Jobs over real processes and a real database, where no client can see them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.jobs.rows import JobRow, kill_job, record_job
from agents.models import Job
from agents.tools import limits
from agents.tools.shell import identity
from agents.tools.shell.command import Running
from agents.tools.shell.identity import PROCESS_MARK
from agents.tools.shell.jobs import JobRefused
from agents.tools.shell.output import WatchedOutput
from tests.integration.jobs.conftest import Place
from tests.integration.tools.shell.marked_processes import Word, until
from workspaces.actions.workspaces import close_workspace
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.log.writer import writer

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@linux_only
async def test_a_job_is_recorded_with_what_it_is_known_by(place: Place) -> None:
    order = place.order("sleep 600")
    job_id = await place.jobs.start(order)
    row = await place.row(job_id)
    assert (row.state, row.exit_code, row.ended_at) == ("running", None, None)
    assert (row.command, row.description) == ("sleep 600", "d")
    assert (row.instance, row.host) == (identity.this_server(), identity.this_host())
    assert row.process_mark == order.process_mark
    assert row.pid_started == identity.started(row.pid) != ""
    await place.jobs.kill(job_id)
    row = await place.row(job_id)
    assert (row.state, row.exit_code) == ("killed", 137)
    assert row.ended_at is not None
    assert identity.started(row.pid) == ""


async def test_nothing_is_run_in_a_workspace_that_has_closed(place: Place) -> None:
    await writer.write(place.workspace_id, lambda tx: close_workspace(tx, place.workspace_id))
    with pytest.raises(JobRefused, match="workspace not found"):
        await place.jobs.start(place.order("touch made"))
    assert not (place.path / "made").exists()
    assert await read(Job.objects.count) == 0
    assert place.host.hosted() == frozenset()


@linux_only
async def test_a_cancel_while_a_job_begins_ends_it(place: Place) -> None:
    word = Word()
    for turns in (1, 2, 5, 20, 50):
        starting = asyncio.ensure_future(place.jobs.start(place.order(word.sleeper)))
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    async with asyncio.timeout(60):
        while place.host.hosted() or await read(Job.objects.filter(state="running").count):
            await asyncio.sleep(0.02)
    await asyncio.to_thread(until, lambda: not word.pids())


async def test_an_adopted_command_goes_on_with_what_it_had_printed(place: Place) -> None:
    order = place.order("echo before; until [ -e go ]; do sleep 0.02; done; echo after; exit 2")
    output = WatchedOutput(limits.COMMAND_OUTPUT_BYTES)
    running = await Running.start(order.argv, cwd=order.folder, env=order.env, sink=output)
    async with asyncio.timeout(60):
        while output.kept.text() != "before\n":
            await asyncio.sleep(0.02)
    assert not running.is_over
    job_id = await place.jobs.adopt(order, running, output)
    assert (await place.jobs.report(job_id)).output == "before\n"
    (place.path / "go").touch()
    report = await place.jobs.report(job_id, wait_seconds=20)
    assert (report.state, report.exit_code, report.output) == ("ended", 2, "before\nafter\n")


async def test_what_is_refused_stays_its_callers(place: Place) -> None:
    await writer.write(place.workspace_id, lambda tx: close_workspace(tx, place.workspace_id))
    order = place.order("until [ -e go ]; do sleep 0.02; done")
    output = WatchedOutput(100)
    running = await Running.start(order.argv, cwd=order.folder, env=order.env, sink=output)
    with pytest.raises(JobRefused):
        await place.jobs.adopt(order, running, output)
    assert not running.is_over
    (place.path / "go").touch()
    assert await running.finish() == 0


@linux_only
async def test_a_job_that_another_process_kills_in_its_row_ends(place: Place) -> None:
    """Processes share nothing but the database."""
    job_id = await place.jobs.start(place.order("echo hi; sleep 600"))
    async with asyncio.timeout(60):
        while (await place.jobs.report(job_id)).output != "hi\n":
            await asyncio.sleep(0.02)
    pid = (await place.row(job_id)).pid
    await writer.write(
        "", lambda tx: tx.execute("UPDATE agents_job SET state = 'killed' WHERE id = %s", [job_id])
    )
    report = await place.jobs.report(job_id, wait_seconds=20)
    assert (report.state, report.output) == ("killed", "hi\n")
    assert identity.started(pid) == ""


async def test_what_a_job_printed_is_read_from_its_file_when_nobody_hosts_it(place: Place) -> None:
    job_id = await place.jobs.start(place.order("echo hi"))
    await place.jobs.report(job_id, wait_seconds=20)
    assert place.host.find(job_id) is None
    assert (await place.jobs.report(job_id, wait_seconds=20)).output == "hi\n"
    file = Path((await place.row(job_id)).output_path)
    assert file.read_text() == "hi\n"
    assert (file.stat().st_mode & 0o777, file.parent) == (0o600, place.path / "data" / "jobs")
    # A link in its place is not followed, and a folder that leads away is not written to.
    file.unlink()
    secret = place.path / "secret"
    secret.write_text("secret")
    file.symlink_to(secret)
    assert (await place.jobs.report(job_id)).output == ""


async def test_output_that_cannot_be_saved_is_told_from_memory(place: Place) -> None:
    (place.path / "elsewhere").mkdir()
    (place.path / "data").mkdir()
    (place.path / "data" / "jobs").symlink_to(place.path / "elsewhere")
    job_id = await place.jobs.start(place.order("echo hi; sleep 600"))
    async with asyncio.timeout(60):
        while (await place.jobs.report(job_id)).output != "hi\n":
            await asyncio.sleep(0.02)
    await place.jobs.kill(job_id)
    assert list((place.path / "elsewhere").iterdir()) == []


async def test_only_the_newest_are_remembered(place: Place) -> None:
    folder = place.path / "data" / "jobs"
    oldest = await place.jobs.start(place.order("echo hi"))
    await place.jobs.report(oldest, wait_seconds=20)
    kept = [await leave(place) for _ in range(limits.JOBS_KEPT - 1)]
    await place.host.end_lost(is_alone=True)
    assert (folder / f"{oldest}.log").exists()
    newest = [await place.jobs.start(place.order("echo hi"))]
    await place.jobs.report(newest[0], wait_seconds=20)
    assert await read(Job.objects.filter(pk=oldest).exists)  # as many as are kept, and one more
    newest.append(await place.jobs.start(place.order("echo hi")))
    left = {job.pk for job in await read(lambda: list(Job.objects.all()))}
    assert left == {*newest, *(row.id for row in kept)}
    assert not (folder / f"{oldest}.log").exists()
    with pytest.raises(JobRefused, match="no job"):
        await place.jobs.report(oldest)


async def test_another_workspace_s_job_is_not_known(place: Place) -> None:
    job_id = await place.jobs.start(place.order("sleep 600"))
    other = type(place.jobs)("another", place.session_id)
    for ask in (other.report, other.kill):
        with pytest.raises(JobRefused, match="no job"):
            await ask(job_id)
    assert (await place.jobs.report(job_id)).is_running


# -- what a server that died left


@pytest.fixture
def orphan() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    mark = new_id()
    process = subprocess.Popen(["sleep", "600"], env={PROCESS_MARK: mark, "PATH": "/usr/bin:/bin"})
    yield process, mark
    process.kill()
    process.wait()


async def leave(place: Place, **facts: object) -> JobRow:
    """The row of a job whose server is gone."""
    given = {
        "id": new_id(),
        "workspace_id": place.workspace_id,
        "session_id": place.session_id,
        "command": "sleep 600",
        "description": "",
        "working_dir": str(place.path),
        "instance": "999999999@gone/1",
        "host": identity.this_host(),
        "pid": 0,
        "pid_started": "",
        "process_mark": new_id(),
        **facts,
    }
    row = JobRow(**given)  # type: ignore[arg-type]
    await writer.write(place.workspace_id, lambda tx: record_job(tx, row))
    return row


@linux_only
async def test_what_a_dead_server_left_is_ended_and_told_as_lost(
    place: Place, orphan: tuple[subprocess.Popen[bytes], str]
) -> None:
    process, mark = orphan
    begun = identity.started(process.pid)
    row = await leave(place, pid=process.pid, pid_started=begun, process_mark=mark)
    await place.host.end_lost(is_alone=False)
    assert await asyncio.to_thread(process.wait, 10) == -9
    stored = await place.row(row.id)
    assert (stored.state, stored.exit_code) == ("lost", None)
    assert stored.ended_at is not None
    await place.host.end_lost(is_alone=False)


async def test_a_kill_that_a_dead_server_did_not_carry_out_is_settled(place: Place) -> None:
    row = await leave(place)
    await writer.write("", lambda tx: kill_job(tx, row.id))
    await place.host.end_lost(is_alone=False)
    stored = await place.row(row.id)
    assert (stored.state, stored.exit_code) == ("killed", 137)


@linux_only
async def test_a_stranger_with_the_recorded_number_is_spared(
    place: Place, orphan: tuple[subprocess.Popen[bytes], str]
) -> None:
    process, _ = orphan
    begun = identity.started(process.pid)
    row = await leave(place, pid=process.pid, pid_started=begun)
    await place.host.end_lost(is_alone=True)
    assert process.poll() is None
    assert (await place.row(row.id)).state == "lost"


@linux_only
async def test_jobs_of_living_servers_and_other_hosts_are_left_alone(
    place: Place, orphan: tuple[subprocess.Popen[bytes], str]
) -> None:
    process, mark = orphan
    begun = identity.started(process.pid)
    alive = f"{process.pid}@{begun}"
    rows = [
        await leave(place, instance=alive, pid=process.pid, pid_started=begun, process_mark=mark),
        await leave(place, host="another", pid=process.pid, pid_started=begun, process_mark=mark),
    ]
    await place.host.end_lost(is_alone=False)
    assert process.poll() is None
    assert [(await place.row(row.id)).state for row in rows] == ["running", "running"]
