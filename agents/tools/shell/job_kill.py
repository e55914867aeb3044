"""Ends a background job with everything that it started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from agents.tools.shell.job_output import SHELL_ID, metadata_of, status_of
from agents.tools.shell.jobs import JobRefused


@dataclass(frozen=True, slots=True)
class JobKillArgs:
    shell_id: str


class JobKill:
    repetition = Repetition.IDEMPOTENT
    spec = ToolSpec(
        name="job_kill",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {"shell_id": SHELL_ID},
            "required": ["shell_id"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> JobKillArgs:
        return JobKillArgs(
            arguments.text(given, "shell_id", max_bytes=limits.MAX_NAME_BYTES, blank=False)
        )

    async def required_permission(
        self, _args: JobKillArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None

    async def run(self, args: JobKillArgs, context: ToolContext) -> ToolOutcome:
        try:
            before = await context.jobs.kill(args.shell_id)
        except JobRefused as refusal:
            raise ToolRefusal(str(refusal)) from None
        if before.is_running:
            message = f"The job {args.shell_id} was ended, with everything that it had started."
        else:
            message = f"The job {args.shell_id} had already ended: {status_of(before)}."
        return ToolOutcome(message, metadata={**metadata_of(before), "done": True})
