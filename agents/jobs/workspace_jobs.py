"""The background jobs of a workspace, for its tools."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from agents.config.cache import configs
from agents.jobs.host import Hosted, job_host
from agents.jobs.rows import (
    JobRow,
    end_job,
    find_job,
    forget_old_jobs,
    kill_job,
    record_job,
    running_ids,
)
from agents.states import JobState
from agents.tools import limits
from agents.tools.shell import identity
from agents.tools.shell.command import Running
from agents.tools.shell.jobs import JobOrder, JobRefused, JobReport
from agents.tools.shell.output import WatchedOutput
from workspaces.log.errors import Refusal
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer

_FOLDER = "jobs"
_MAX_BYTES = 1024 * 1024


def path_of(data_dir: str, job_id: str) -> str:
    return str(Path(data_dir) / _FOLDER / f"{job_id}.log")


def save_output(path: str, text: str) -> None:
    """Writes a job's output to a file, without following links. Raises ``OSError``."""
    file = Path(path)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    temporary = f".{file.name}.tmp"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(temporary, flags, 0o600, dir_fd=folder)
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode())
        os.replace(temporary, file.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def read_output(path: str) -> str:
    """Returns a job's saved output; empty if there is none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return stream.read(_MAX_BYTES).decode("utf-8", errors="replace")


def forget_outputs(paths: list[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            Path(path).unlink()


logger = logging.getLogger(__name__)

_SAVE_SECONDS = 0.25
_POLL_SECONDS = 0.5  # for a job that another process hosts
_KILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class WorkspaceJobs:
    workspace_id: str
    session_id: str

    async def start(self, order: JobOrder) -> str:
        self._check_room()
        starting = job_host().begin(self.workspace_id, self._start(order))
        try:
            job: Hosted = await asyncio.shield(starting)
        except asyncio.CancelledError:
            _ = job_host().spawn(_end_when_started(starting))
            raise
        return job.id

    async def adopt(self, order: JobOrder, running: Running, output: WatchedOutput) -> str:
        self._check_room()
        recording = job_host().begin(self.workspace_id, self._record(order, running, output))
        try:
            job: Hosted = await asyncio.shield(recording)
        except asyncio.CancelledError:
            running.end()
            raise
        return job.id

    async def report(self, shell_id: str, *, wait_seconds: float = 0.0) -> JobReport:
        hosted = self._hosted(shell_id)
        if hosted is not None:
            if wait_seconds:
                await _wait(hosted.ended, wait_seconds)
        elif wait_seconds:
            await self._wait_elsewhere(shell_id, wait_seconds)
        found = await read(find_job, self.workspace_id, shell_id)
        if found is None:
            raise await self._unknown(shell_id)
        if hosted is not None:
            output = hosted.output.kept.text()
        else:
            output = await asyncio.to_thread(read_output, found.output_path)
        return replace(found.report, output=output)

    async def kill(self, shell_id: str) -> JobReport:
        before = await self.report(shell_id)
        if not before.is_running:
            return before
        hosted = self._hosted(shell_id)
        if hosted is not None:
            await job_host().kill(hosted)
        else:  # the process that hosts the job polls its row
            await writer.write(self.workspace_id, lambda tx: kill_job(tx, shell_id))
            await self._wait_elsewhere(shell_id, _KILL_SECONDS)
        return before

    # -- beginning

    def _check_room(self) -> None:
        host = job_host()
        if host.is_stopping:
            raise JobRefused("The server is stopping.")
        if not host.has_room(self.workspace_id, most=limits.JOBS_RUNNING):
            raise JobRefused(
                f"{limits.JOBS_RUNNING} background jobs are running, and no more are allowed: "
                "end one with job_kill first."
            )

    async def _start(self, order: JobOrder) -> Hosted:
        output = WatchedOutput(limits.COMMAND_OUTPUT_BYTES)
        running = await Running.start(
            order.argv, cwd=order.folder, env=order.env, sink=output, is_held=True
        )
        try:
            job = await self._record(order, running, output)
        except BaseException:
            running.end()
            await running.finish()
            raise
        running.release()
        return job

    async def _record(self, order: JobOrder, running: Running, output: WatchedOutput) -> Hosted:
        """Writes the job's row. Raises ``JobRefused`` if the workspace was closed meanwhile."""
        config = await configs().config_of(self.workspace_id)
        job_id = secrets.token_hex(6)  # short: a model copies it
        row = JobRow(
            id=job_id,
            workspace_id=self.workspace_id,
            session_id=self.session_id,
            command=order.command,
            description=order.description,
            working_dir=str(order.folder),
            instance=job_host().instance,
            host=await asyncio.to_thread(identity.this_host),
            pid=running.pid,
            pid_started=await asyncio.to_thread(identity.started, running.pid),
            process_mark=order.process_mark,
            output_path=path_of(config.data_dir, job_id),
            supervisor=await asyncio.to_thread(identity.server_with, running.supervisor_pid),
            token=job_host().new_token(),
        )

        def record(tx: Transaction) -> list[str]:
            record_job(tx, row)
            return forget_old_jobs(tx, self.workspace_id, kept=limits.JOBS_KEPT)

        try:
            forgotten = await writer.write(self.workspace_id, record)
        except Refusal as refusal:
            raise JobRefused(f"The job was not started: {refusal.sentence}.") from None
        job = Hosted(row, running, output)
        host_job(job)
        await job_host().keep(job)
        if forgotten:
            await asyncio.to_thread(forget_outputs, forgotten)
        return job

    # -- finding

    def _hosted(self, shell_id: str) -> Hosted | None:
        job = job_host().find(shell_id)
        return job if job is not None and job.workspace_id == self.workspace_id else None

    async def _wait_elsewhere(self, shell_id: str, seconds: float) -> None:
        """Waits until another process has written the job's end."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        while loop.time() < ends_at:
            found = await read(find_job, self.workspace_id, shell_id)
            if found is None or not _is_live(found.report):
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _unknown(self, shell_id: str) -> JobRefused:
        ids = await read(running_ids, self.workspace_id)
        there = f"Running are: {', '.join(ids)}." if ids else "None is running."
        return JobRefused(f"There is no job {shell_id!r} in this workspace. {there}")


def _is_live(report: JobReport) -> bool:
    """Whether the job runs, including one that is killed and has not ended yet."""
    return report.is_running or (report.state == JobState.KILLED and report.exit_code is None)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting}, timeout=seconds)
    finally:
        waiting.cancel()


async def _end_when_started(starting: asyncio.Task[Hosted]) -> None:
    """Ends a job whose call was cancelled while the job was starting."""
    await asyncio.wait({starting})
    if not starting.cancelled() and starting.exception() is None:
        await job_host().kill(starting.result())


def host_job(job: Hosted) -> None:
    """Makes this process the host of a recorded job."""
    job_host().take(
        job,
        on_output=lambda: _save(job),
        on_end=lambda exit_code: _end(job, exit_code),
        every=_SAVE_SECONDS,
    )


async def _save(job: Hosted) -> None:
    text = job.output.kept.text()
    try:
        await asyncio.to_thread(save_output, job.row.output_path, text)
    except OSError as error:
        # This process still has the output in memory.
        logger.warning(
            "a job's output could not be saved: %s", error.strerror, extra={"job": job.id}
        )


async def _end(job: Hosted, exit_code: int) -> None:
    await _save(job)
    await writer.write(job.workspace_id, lambda tx: end_job(tx, job.id, exit_code=exit_code))
