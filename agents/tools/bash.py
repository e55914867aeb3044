"""Runs a shell command to its end, and ends all that it started."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments, asked, limits
from agents.tools.contract import Question, ToolContext, ToolOutcome, ToolRefusal
from agents.tools.description import beside
from agents.tools.paths import resolve
from agents.tools.shell.environment import unattended_environment
from agents.tools.shell.output import BoundedOutput
from agents.tools.shell.process import Finished, ProcessFailed, run
from permissions.policy.commands import is_read_only

NO_OUTPUT = "no output"
_MAX_DESCRIPTION = 2_000
_PROGRESS_SECONDS = 0.1
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class BashArgs:
    command: str
    description: str = ""
    working_dir: str = ""
    run_in_background: bool = False
    auto_background_after: int = 0


class Bash:
    parallel = False
    spec = ToolSpec(
        name="bash",
        description=beside(__file__),
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
                    "description": "Where to run it (default: the working folder).",
                },
                "run_in_background": {"type": "boolean", "description": "Not available yet."},
                "auto_background_after": {
                    "type": "integer",
                    "description": "Not available yet; every command runs to its end.",
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

    async def question(self, args: BashArgs, context: ToolContext) -> Question | None:
        _refuse_background(args)
        folder = await asyncio.to_thread(_folder, args, context)
        asked.remember(context, folder)
        # Only at home: a planted repository elsewhere may have git run what it likes.
        if folder == context.working_dir and await asyncio.to_thread(is_read_only, args.command):
            return None
        return Question(
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
        _refuse_background(args)
        folder = await asyncio.to_thread(_folder, args, context)
        asked.check(context, folder)
        output = _WatchedOutput(context.progress)
        started = _now_ms()
        try:
            finished = await run(
                [_shell(context), "-c", args.command],
                cwd=folder,
                env=unattended_environment(context),
                sink=output,
                timeout_seconds=self._timeout_seconds,
            )
        except ProcessFailed as failure:
            raise ToolRefusal(str(failure)) from None
        finally:
            output.close()
        text = output.kept.text().strip("\n")
        return ToolOutcome(
            self._told(finished, text),
            metadata={
                "start_time": started,
                "end_time": _now_ms(),
                "output": text,
                "description": args.description,
                "working_directory": str(folder),
            },
        )

    def _told(self, finished: Finished, text: str) -> str:
        if finished.timed_out:
            note = f"The command was ended after {self._timeout_seconds:g} seconds, with all it had started."
        elif finished.exit_code:
            note = f"Exit code {finished.exit_code}"
        else:
            return text or NO_OUTPUT
        return f"{text or NO_OUTPUT}\n\n{note}"


class _WatchedOutput:
    """Keeps the output, and tells those who watch at most ten times a second."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self.kept = BoundedOutput(limits.COMMAND_OUTPUT_BYTES)
        self._progress = progress
        self._loop = asyncio.get_running_loop()
        self._next_at = 0.0
        self._waiting: asyncio.TimerHandle | None = None

    def feed(self, chunk: bytes) -> bool:
        self.kept.feed(chunk)
        if self._waiting is None:
            delay = max(0.0, self._next_at - self._loop.time())
            self._waiting = self._loop.call_later(delay, self._tell)
        return True

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _tell(self) -> None:
        self._waiting = None
        self._next_at = self._loop.time() + _PROGRESS_SECONDS
        self._progress(self.kept.text())


def _refuse_background(args: BashArgs) -> None:
    if args.run_in_background:
        raise ToolRefusal(
            "Background jobs are not available yet: run the command without run_in_background."
        )


def _folder(args: BashArgs, context: ToolContext) -> Path:
    folder = resolve(args.working_dir, context)
    if not folder.is_dir():
        raise ToolRefusal(f"The working directory {folder} is not there.")
    return folder


def _shell(context: ToolContext) -> str:
    path = context.env.get("PATH")
    return shutil.which("bash", path=path) or shutil.which("sh", path=path) or "/bin/sh"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
