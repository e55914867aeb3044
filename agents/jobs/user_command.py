"""Runs a user's shell command and writes its output into a message while it runs.

The command needs no permission and belongs to no run and no connection. It ends by itself,
when its session is cancelled or deleted, and with its workspace. It may outlive this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agents.jobs.host import Hosted, job_host
from agents.jobs.rows import JobRow
from agents.jobs.shell_command import finish_command, keep_output, start_command
from agents.tools import limits
from agents.tools.shell import identity
from agents.tools.shell.command import Running, shell_command
from agents.tools.shell.environment import user_environment
from agents.tools.shell.output import WatchedOutput
from agents.tools.shell.process import ProcessFailed
from agents.tools.shell.terminal import shown
from people.actions.audit import Act, record
from workspaces.access import Actor
from workspaces.delivery.tool_output import publish_output
from workspaces.log.errors import BadField, CommandsRunning, ShuttingDown
from workspaces.log.ids import new_id
from workspaces.log.transaction import Transaction
from workspaces.log.types import Output
from workspaces.log.writer import writer

_OUTPUT_SECONDS = 0.1
_SAVES_PER_SECOND = 4.0
_BYTES_PER_SECOND = 50_000.0  # a long output is saved less often


@dataclass(frozen=True, slots=True)
class UserCommand:
    workspace_id: str
    session_id: str
    command: str
    folder: Path
    env: Mapping[str, str] = field(repr=False)
    columns: int = 0  # the width of the command's terminal; 0: no terminal
    actor: Actor | None = None


@dataclass(frozen=True, slots=True)
class CommandEnd:
    output: str
    exit_code: int


async def run_user_command(request: UserCommand) -> CommandEnd:
    """Runs the command and returns its end. Raises ``Refusal``.

    Cancelling this call does not end the command.
    """
    host = job_host()
    if host.is_stopping:
        raise ShuttingDown
    if not host.has_room(request.workspace_id, is_users=True, most=limits.USER_COMMANDS_RUNNING):
        raise CommandsRunning
    shell = await asyncio.shield(host.begin(request.workspace_id, _start(request), is_users=True))
    await shell.job.ended.wait()
    if shell.job.is_left:
        raise ShuttingDown
    return CommandEnd(shell.text(), shell.exit_code)


class Shell:
    """A running command, whose output goes to readers and into its message."""

    def __init__(self, row: JobRow, running: Running, output: WatchedOutput) -> None:
        self.job = Hosted(row, running, output, is_users=True)
        self.exit_code = 0
        self._next_save = 0.0

    def text(self, limit_bytes: int | None = None) -> str:
        text = self.job.output.kept.text(limit_bytes)
        return shown(text) if self.job.row.columns else text

    def host(self) -> None:
        """Makes this process the host of the recorded command."""
        job_host().take(self.job, on_output=self.publish, on_end=self.end, every=_OUTPUT_SECONDS)

    async def publish(self) -> None:
        row, live = self.job.row, self.text(limits.LIVE_OUTPUT_BYTES)
        output = Output(row.session_id, row.id, "", live)
        publish_output(row.workspace_id, output)
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now < self._next_save:
            loop.call_at(self._next_save, self.job.changed.set)
            return
        self._next_save = now + max(1 / _SAVES_PER_SECOND, len(live) / _BYTES_PER_SECOND)
        await writer.write("", lambda tx: keep_output(tx, row, live))
        # A reader that connected during the write began with the output saved before it.
        publish_output(row.workspace_id, output)

    async def end(self, exit_code: int) -> None:
        self.exit_code = exit_code
        row, text = self.job.row, self.text()
        await writer.write(
            row.workspace_id,
            lambda tx: finish_command(tx, row, output=text, exit_code=exit_code),
        )


def _begin(tx: Transaction, *, request: UserCommand, job: JobRow) -> JobRow:
    begun = start_command(tx, job=job)
    record(
        tx,
        request.actor,
        Act.SHELL,
        workspace_id=request.workspace_id,
        session_id=request.session_id,
        target=request.command,
        outcome="started",
    )
    return begun


async def _start(request: UserCommand) -> Shell:
    """Starts the command, which is held until its row and its message are written."""
    mark = new_id()
    output = WatchedOutput(limits.USER_OUTPUT_BYTES)
    env = user_environment(
        request.env,
        process_mark=mark,
        server_mark=job_host().server_mark,
        columns=request.columns,
    )
    try:
        running = await Running.start(
            shell_command(request.command, request.env),
            cwd=request.folder,
            env=env,
            sink=output,
            is_held=True,
            columns=request.columns,
        )
    except ProcessFailed as failure:
        raise BadField(str(failure)) from None
    try:
        row = JobRow(
            id="",
            workspace_id=request.workspace_id,
            session_id=request.session_id,
            command=request.command,
            description="",
            working_dir=str(request.folder),
            instance=job_host().instance,
            host=await asyncio.to_thread(identity.this_host),
            pid=running.pid,
            pid_started=await asyncio.to_thread(identity.started, running.pid),
            process_mark=mark,
            supervisor=await asyncio.to_thread(identity.server_with, running.supervisor_pid),
            token=job_host().new_token(),
            columns=request.columns,
        )
        begin = partial(_begin, request=request, job=row)
        row = await writer.write(request.workspace_id, begin)
    except BaseException:
        running.end()
        await running.finish()
        raise
    shell = Shell(row, running, output)
    shell.host()
    await job_host().keep(shell.job)
    running.release()
    return shell
