"""A user's own command, run: its message is there from its start and grows with it.

Asked by nobody, tied to no run and to no connection. It ends by itself, by its
session's cancel or deletion, with its workspace, and with this process.
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
from agents.tools.shell.environment import user_environment
from agents.tools.shell.process import ProcessFailed
from agents.tools.shell.running import Running, shell_command, shown
from agents.tools.shell.watched import WatchedOutput
from workspaces.delivery.tool_output import tell_output
from workspaces.log.errors import BadField, CommandsRunning, ShuttingDown
from workspaces.log.ids import new_id
from workspaces.log.types import Output
from workspaces.log.writer import writer

_TELL_SECONDS = 0.1
_SAVES_PER_SECOND = 4.0
_BYTES_PER_SECOND = 50_000.0  # a long output is saved less often


@dataclass(frozen=True, slots=True)
class UserCommand:
    workspace_id: str
    session_id: str
    command: str
    folder: Path
    env: Mapping[str, str] = field(repr=False)
    columns: int = 0  # of the terminal that it prints on; 0: none


@dataclass(frozen=True, slots=True)
class CommandEnd:
    output: str
    exit_code: int


async def run_user_command(asked: UserCommand) -> CommandEnd:
    """Returns at its end; it goes on when this is cancelled. Raises ``Refusal``."""
    host = job_host()
    if host.is_stopping:
        raise ShuttingDown
    if not host.has_room(asked.workspace_id, is_users=True, most=limits.USER_COMMANDS_RUNNING):
        raise CommandsRunning
    shell = await asyncio.shield(host.begin(asked.workspace_id, _start(asked), is_users=True))
    await shell.job.ended.wait()
    return CommandEnd(shell.text(), shell.exit_code)


class _Shell:
    """One that runs, and what is told and kept of it."""

    def __init__(
        self, asked: UserCommand, row: JobRow, running: Running, output: WatchedOutput
    ) -> None:
        self.asked = asked
        self.job = Hosted(row, running, output, is_users=True)
        self.exit_code = 0
        self._next_save = 0.0

    def text(self, limit_bytes: int | None = None) -> str:
        text = self.job.output.kept.text(limit_bytes)
        return shown(text) if self.asked.columns else text

    async def tell(self) -> None:
        row, live = self.job.row, self.text(limits.LIVE_OUTPUT_BYTES)
        output = Output(row.session_id, row.id, "", live)
        tell_output(row.workspace_id, output)
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now < self._next_save:
            loop.call_at(self._next_save, self.job.changed.set)
            return
        self._next_save = now + max(1 / _SAVES_PER_SECOND, len(live) / _BYTES_PER_SECOND)
        await writer.write("", lambda tx: keep_output(tx, row, live))
        # Who came in between has begun with what was saved before.
        tell_output(row.workspace_id, output)

    async def end(self, exit_code: int) -> None:
        self.exit_code = exit_code
        row, text = self.job.row, self.text()
        await writer.write(
            row.workspace_id,
            lambda tx: finish_command(tx, row, output=text, exit_code=exit_code),
        )


async def _start(asked: UserCommand) -> _Shell:
    """Recorded, with its message, before it does anything."""
    mark = new_id()
    output = WatchedOutput(limits.USER_OUTPUT_BYTES)
    env = user_environment(
        asked.env,
        process_mark=mark,
        server_mark=job_host().server_mark,
        columns=asked.columns,
    )
    try:
        running = await Running.start(
            shell_command(asked.command, asked.env),
            cwd=asked.folder,
            env=env,
            sink=output,
            is_held=True,
            columns=asked.columns,
        )
    except ProcessFailed as failure:
        raise BadField(str(failure)) from None
    try:
        row = JobRow(
            id="",
            workspace_id=asked.workspace_id,
            session_id=asked.session_id,
            command=asked.command,
            description="",
            working_dir=str(asked.folder),
            instance=job_host().instance,
            host=await asyncio.to_thread(identity.this_host),
            pid=running.pid,
            pid_started=await asyncio.to_thread(identity.started, running.pid),
            process_mark=mark,
        )
        row = await writer.write(asked.workspace_id, partial(start_command, job=row))
    except BaseException:
        running.end()
        await running.finish()
        raise
    shell = _Shell(asked, row, running, output)
    job_host().take(shell.job, on_output=shell.tell, on_end=shell.end, every=_TELL_SECONDS)
    running.let_go()
    return shell
