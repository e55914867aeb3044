"""Runs a shell command to its end, or in the background on request or when it takes long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments, limits
from agents.tools.contract import (
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.files import approval_snapshot
from agents.tools.files.paths import resolve
from agents.tools.shell.command import Running, shell_command
from agents.tools.shell.environment import unattended_environment
from agents.tools.shell.jobs import JobOrder, JobRefused
from agents.tools.shell.output import WatchedOutput
from agents.tools.shell.process import ProcessFailed
from agents.tools.shell.read_only import reads_inside, safe_git_variables, shows_secrets
from permissions.policy.commands import check_command
from permissions.policy.prefixes import is_known_locale

NO_OUTPUT = "no output"
_MAX_DESCRIPTION = 2_000
_PROGRESS_SECONDS = 0.1
_EARLY_END_SECONDS = 0.5  # a call waits so long for a background job that fails at once
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class BashArgs:
    command: str
    description: str = ""
    working_dir: str = ""
    run_in_background: bool = False
    auto_background_after: int = 0


class Bash:
    repetition = Repetition.EFFECT
    spec = ToolSpec(
        name="bash",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command to run."},
                "description": {
                    "type": "string",
                    "description": "What it does, for people, in at most ten words.",
                },
                "working_dir": {
                    "type": "string",
                    "description": "Where to run it (default: the working directory).",
                },
                "run_in_background": {
                    "type": "boolean",
                    "description": "Run it as a background job: for servers, watchers, long builds.",
                },
                "auto_background_after": {
                    "type": "integer",
                    "description": "Seconds after which a command that still runs goes on in the"
                    f" background (default {limits.BACKGROUND_AFTER_SECONDS}).",
                },
            },
            "required": ["command", "description"],
        },
    )

    def __init__(self, *, timeout_seconds: float = limits.COMMAND_SECONDS) -> None:
        self._timeout_seconds = timeout_seconds

    def parse(self, given: Mapping[str, Any]) -> BashArgs:
        return BashArgs(
            command=arguments.text(
                given, "command", max_bytes=limits.MAX_COMMAND_BYTES, blank=False
            ),
            description=arguments.text(
                given, "description", default="", max_bytes=_MAX_DESCRIPTION
            ),
            working_dir=arguments.text(
                given, "working_dir", default="", max_bytes=limits.MAX_PATH_BYTES
            ),
            run_in_background=arguments.flag(given, "run_in_background"),
            auto_background_after=arguments.count(
                given, "auto_background_after", default=0, most=_DAY_SECONDS
            ),
        )

    async def required_permission(
        self, args: BashArgs, context: ToolContext
    ) -> RequiredPermission | None:
        folder = await asyncio.to_thread(_folder, args, context)
        environment = await _reading_environment(args.command, folder, context)
        approval_snapshot.remember(context, folder, environment is None)
        if environment is not None:
            return None
        return RequiredPermission(
            tool_name=self.spec.name,
            action="execute",
            path=str(folder),
            description=f"Execute command: {args.command}",
            params={
                "command": args.command,
                "description": args.description,
                "working_dir": args.working_dir,
                "run_in_background": args.run_in_background,
                "auto_background_after": args.auto_background_after,
            },
        )

    async def run(self, args: BashArgs, context: ToolContext) -> ToolOutcome:
        folder = await asyncio.to_thread(_folder, args, context)
        environment = await _reading_environment(args.command, folder, context)
        approval_snapshot.check(context, folder, environment is None)
        order = JobOrder(
            command=args.command,
            description=args.description,
            folder=folder,
            argv=shell_command(args.command, context.env),
            env={**unattended_environment(context), **(environment or {})},
            process_mark=context.process_mark,
        )
        started = _now_ms()
        try:
            if args.run_in_background:
                result = await _in_background(order, context)
            else:
                result = await self._in_front(order, args.auto_background_after, context)
        except (ProcessFailed, JobRefused) as failure:
            raise ToolRefusal(str(failure)) from None
        metadata = {
            "start_time": started,
            "end_time": _now_ms(),
            "output": result.output,
            "description": args.description,
            "working_directory": str(folder),
        }
        if result.shell_id:
            metadata |= {"background": True, "shell_id": result.shell_id}
        content = result.output or NO_OUTPUT
        return ToolOutcome(
            f"{content}\n\n{result.note}" if result.note else content, metadata=metadata
        )

    async def _in_front(self, order: JobOrder, after: int, context: ToolContext) -> _BashResult:
        output = WatchedOutput(limits.COMMAND_OUTPUT_BYTES)
        output.watch(
            lambda: context.progress(output.kept.text(limits.LIVE_OUTPUT_BYTES)),
            every_seconds=_PROGRESS_SECONDS,
        )
        running = await Running.start(order.argv, cwd=order.folder, env=order.env, sink=output)
        is_ours = True
        after = after or limits.BACKGROUND_AFTER_SECONDS
        try:
            if not await running.wait(min(after, self._timeout_seconds)):
                try:
                    shell_id = await context.jobs.adopt(order, running, output)
                except JobRefused:
                    await running.wait(self._timeout_seconds - after)
                else:
                    is_ours = False
                    return _BashResult(_text(output), _still_runs(shell_id), shell_id)
            is_late = not running.is_over
            running.end()
            exit_code = await running.finish()
        finally:
            if is_ours:
                output.unwatch()
                running.end()
                await running.finish()
        if is_late:
            return _BashResult(_text(output), self._ended_late())
        return _BashResult(_text(output), f"Exit code {exit_code}" if exit_code else "")

    def _ended_late(self) -> str:
        return (
            f"The command was ended after {self._timeout_seconds:g} seconds, "
            "with everything that it had started."
        )


@dataclass(frozen=True, slots=True)
class _BashResult:
    output: str
    note: str = ""
    shell_id: str = ""  # of the command that continues in the background


async def _in_background(order: JobOrder, context: ToolContext) -> _BashResult:
    shell_id = await context.jobs.start(order)
    try:
        # Report an immediate failure in this call.
        report = await context.jobs.report(shell_id, wait_seconds=_EARLY_END_SECONDS)
    except asyncio.CancelledError:
        await context.jobs.kill(shell_id)  # the call was cancelled, so its job must not survive
        raise
    output = report.output.strip("\n")
    if report.is_running:
        return _BashResult(output, _still_runs(shell_id), shell_id)
    note = f"The job {shell_id} has ended already, with exit code {report.exit_code}."
    return _BashResult(output, note, shell_id)


def _still_runs(shell_id: str) -> str:
    return (
        f"It runs in the background as job {shell_id}. "
        "job_output shows what it prints, job_kill ends it."
    )


def _text(output: WatchedOutput) -> str:
    return output.kept.text().strip("\n")


async def _reading_environment(
    command: str, folder: Path, context: ToolContext
) -> Mapping[str, str] | None:
    """Returns variables to add for a command that needs no permission; ``None`` if it needs one."""
    if folder != context.working_dir:  # another repository may make git run any program
        return None
    verdict = await asyncio.to_thread(check_command, command)
    if not verdict.read_only:
        return None
    if not is_known_locale(context.env) and not command.isascii():
        return None
    reads = verdict.reads
    if reads is None or shows_secrets(reads, context):
        return None
    if not await asyncio.to_thread(reads_inside, reads, context):
        return None
    if "git" in verdict.programs:
        return await safe_git_variables(folder, context.env, shows_content=True)
    return {}


def _folder(args: BashArgs, context: ToolContext) -> Path:
    folder = resolve(args.working_dir, context)
    if not folder.is_dir():
        raise ToolRefusal(f"The working directory {folder} does not exist.")
    return folder


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
