"""Writes a whole file: creates it or replaces its content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import (
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.files import changes, replacement
from agents.tools.files.changes import Change
from agents.tools.limits import MAX_PATH_BYTES, MAX_TEXT_BYTES


@dataclass(frozen=True, slots=True)
class WriteArgs:
    file_path: str
    content: str


class Write:
    repetition = Repetition.EFFECT
    spec = ToolSpec(
        name="write",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "The file to write."},
                "content": {"type": "string", "description": "The whole new content of the file."},
            },
            "required": ["file_path", "content"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> WriteArgs:
        return WriteArgs(
            arguments.text(given, "file_path", max_bytes=MAX_PATH_BYTES, blank=False),
            arguments.text(given, "content", max_bytes=MAX_TEXT_BYTES),
        )

    async def required_permission(
        self, args: WriteArgs, context: ToolContext
    ) -> RequiredPermission | None:
        change = await self._plan(args, context, before_permission=True)
        verb = "Overwrite" if change.before else "Create"
        return await changes.required_permission(
            self.spec.name,
            change,
            context,
            named=args.file_path,
            description=f"{verb} file {change.path}",
        )

    async def run(self, args: WriteArgs, context: ToolContext) -> ToolOutcome:
        change = await self._plan(args, context)
        diff = await changes.diff(change, context)
        await changes.commit(change, context)
        verb = "Overwrote" if change.before else "Created"
        summary = f"{verb} {change.path} (+{diff.additions} -{diff.removals} lines)."
        return ToolOutcome(
            await changes.with_diagnostics(summary, change, context),
            metadata={
                "diff": diff.text,
                "additions": diff.additions,
                "removals": diff.removals,
            },
        )

    async def _plan(
        self, args: WriteArgs, context: ToolContext, *, before_permission: bool = False
    ) -> Change:
        path, before = await changes.current(
            args.file_path, context, before_permission=before_permission
        )
        content = args.content
        if before is not None:
            if before.form.newline != "\n":
                content = replacement.with_plain_ends(content)
            if content == before.text:
                raise ToolRefusal(f"{path} already has exactly this content; nothing was written.")
        return Change(path, before, changes.bounded(content))
