"""Takes the commands that a server has left, or stores that they have ended.

A command of a server that stopped or died is kept by its supervisor. The next server on the
host takes the row, then the command; two servers cannot take the same one. Where no
supervisor is left, everything with the command's mark is ended, and its end is announced. The
commands of a host without any process are lost after a time. If such a host returns, it ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import replace

from django.conf import settings

from agents.jobs.host import Hosted, Keeping, job_host
from agents.jobs.rows import JobRow, end_job, take_job
from agents.jobs.shell_command import finish_command, settle_lost
from agents.jobs.user_command import Shell
from agents.jobs.workspace_jobs import host_job, save_output
from agents.tools import limits
from agents.tools.shell import identity, kept
from agents.tools.shell.command import Running
from agents.tools.shell.output import BoundedOutput, WatchedOutput
from agents.tools.shell.process import SUPERVISOR
from agents.tools.shell.terminal import shown
from agents.tools.shell.tree_limits import TreeLimits
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer

logger = logging.getLogger(__name__)

FOLDER = "commands"


async def start_commands(server_mark: str, *, is_alone: bool, is_temporary: bool) -> None:
    """Prepares this process for commands. ``is_temporary``: those that it starts end with it."""
    SUPERVISOR.folder = await asyncio.to_thread(os.path.realpath, settings.DATA_DIR)
    SUPERVISOR.limits = TreeLimits(
        memory_bytes=settings.CRUSH_COMMAND_MEMORY_BYTES,
        processes=settings.CRUSH_COMMAND_PROCESSES,
        file_bytes=settings.CRUSH_COMMAND_FILE_BYTES,
    )
    keeping = Keeping(
        folder=settings.DATA_DIR / FOLDER,
        seconds=settings.CRUSH_KEEP_COMMANDS_SECONDS,
        is_temporary=is_temporary,
    )
    await job_host().start(
        server_mark=server_mark,
        is_alone=is_alone,
        settle=settle,
        keeping=keeping,
        lost_after_seconds=settings.CRUSH_LOST_COMMANDS_SECONDS,
    )


async def settle(job: JobRow) -> None:
    """Takes a dead server's command, or stores its end."""
    is_here = job.host == await asyncio.to_thread(identity.this_host)
    if not is_here:
        await _lose(job, BoundedOutput(limits.COMMAND_OUTPUT_BYTES))
        return
    instance = job_host().instance
    if not await writer.write(job.workspace_id, lambda tx: take_job(tx, job, instance=instance)):
        return
    job = replace(job, instance=instance)
    taken = await asyncio.to_thread(_take, job)
    if taken is None:
        await _store_end(job)
        return
    await _host(job, taken)


def _take(job: JobRow) -> kept.Taken | None:
    pid, _, start = job.supervisor.partition("@")
    if not job.token or not pid.isdecimal() or identity.started(int(pid)) != start:
        return None
    return kept.take(job.token, mark=job.process_mark, supervisor_pid=int(pid))


async def _host(job: JobRow, taken: kept.Taken) -> None:
    is_users = not job.output_path
    output = WatchedOutput(limits.USER_OUTPUT_BYTES if is_users else limits.COMMAND_OUTPUT_BYTES)
    with contextlib.suppress(kept.DamagedRecord):  # its beginning is lost
        output.kept.load(taken.output)
    running = await Running.take(
        taken,
        pid=job.pid,
        supervisor=int(job.supervisor.partition("@")[0]),
        mark=job.process_mark,
        sink=output,
    )
    logger.info("a command of the last server continues", extra={"job": job.id})
    kept_path = job_host().kept_path(job.token)
    if is_users:
        shell = Shell(job, running, output)
        shell.job.kept_path = kept_path
        shell.host()
    else:
        hosted = Hosted(job, running, output, kept_path=kept_path)
        host_job(hosted)


async def _store_end(job: JobRow) -> None:
    """Stores the end of a command that its supervisor no longer keeps."""
    output = BoundedOutput(limits.COMMAND_OUTPUT_BYTES)
    path = str(job_host().kept_folder / job.token) if job.token else ""
    exit_code = None
    if path:
        with contextlib.suppress(kept.DamagedRecord):
            exit_code = output.load(await asyncio.to_thread(kept.stored, path))
    if exit_code is None:
        if await asyncio.to_thread(
            identity.end_recorded, job.pid, job.pid_started, job.process_mark
        ):
            logger.warning("a command of a server that died was ended", extra={"job": job.id})
        await _lose(job, output)
    else:
        await _end(job, output, exit_code)
    if path:
        await asyncio.to_thread(kept.delete, path)


async def _end(job: JobRow, output: BoundedOutput, exit_code: int) -> None:
    await _save(job, output)

    def end(tx: Transaction) -> None:
        if job.output_path:
            end_job(tx, job.id, exit_code=exit_code)
        else:
            finish_command(tx, job, output=_text(job, output), exit_code=exit_code)

    await writer.write(job.workspace_id, end)


async def _lose(job: JobRow, output: BoundedOutput) -> None:
    await _save(job, output)
    text = _text(job, output) if output.total else None
    await writer.write(job.workspace_id, lambda tx: settle_lost(tx, job, text))


async def _save(job: JobRow, output: BoundedOutput) -> None:
    if job.output_path and output.total:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(save_output, job.output_path, output.text())


def _text(job: JobRow, output: BoundedOutput) -> str:
    return shown(output.text()) if job.columns else output.text()
