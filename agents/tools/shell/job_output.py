"""Shows the output of a background job, and waits for its end on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.states import JobState
from agents.tools import arguments, limits
from agents.tools.contract import (
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.shell.jobs import JobRefused, JobReport

SHELL_ID = {"type": "string", "description": "The job's id, from the result of bash."}


@dataclass(frozen=True, slots=True)
class JobOutputArgs:
    shell_id: str
    wait: bool = False


class JobOutput:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="job_output",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "shell_id": SHELL_ID,
                "wait": {"type": "boolean", "description": "Return when the job has ended."},
            },
            "required": ["shell_id"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> JobOutputArgs:
        return JobOutputArgs(
            shell_id=arguments.text(
                given, "shell_id", max_bytes=limits.MAX_NAME_BYTES, blank=False
            ),
            wait=arguments.flag(given, "wait"),
        )

    async def required_permission(
        self, _args: JobOutputArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None

    async def run(self, args: JobOutputArgs, context: ToolContext) -> ToolOutcome:
        wait_seconds = limits.JOB_WAIT_SECONDS if args.wait else 0.0
        try:
            report = await context.jobs.report(args.shell_id, wait_seconds=wait_seconds)
        except JobRefused as refusal:
            raise ToolRefusal(str(refusal)) from None
        output = report.output.strip("\n") or "no output"
        return ToolOutcome(f"Status: {status_of(report)}\n\n{output}", metadata=metadata_of(report))


def status_of(report: JobReport) -> str:
    match report.state:
        case JobState.RUNNING:
            return "running"
        case JobState.ENDED:
            return f"ended with exit code {report.exit_code}"
        case JobState.KILLED:
            return "killed"
        case _:
            return "lost: the job ended with its server, and its outcome is unknown"


def metadata_of(report: JobReport) -> dict[str, Any]:
    return {
        "shell_id": report.shell_id,
        "command": report.command,
        "description": report.description,
        "done": not report.is_running,
        "working_directory": report.working_dir,
    }
