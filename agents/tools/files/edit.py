"""Replaces one piece of text in a file, creates a file, or deletes a piece."""

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
from agents.tools.files.replacement import Replacement
from agents.tools.limits import MAX_PATH_BYTES


@dataclass(frozen=True, slots=True)
class EditArgs:
    file_path: str
    replacement: Replacement


class Edit:
    repetition = Repetition.EFFECT
    spec = ToolSpec(
        name="edit",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "The file to change."},
                **replacement.PROPERTIES,
            },
            "required": ["file_path", "old_string", "new_string"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> EditArgs:
        return EditArgs(
            arguments.text(given, "file_path", max_bytes=MAX_PATH_BYTES, blank=False),
            replacement.parse(given),
        )

    async def required_permission(
        self, args: EditArgs, context: ToolContext
    ) -> RequiredPermission | None:
        change = await self._plan(args, context, before_permission=True)
        return await changes.required_permission(
            self.spec.name,
            change,
            context,
            named=args.file_path,
            description=f"{_verb(args)} file {change.path}",
        )

    async def run(self, args: EditArgs, context: ToolContext) -> ToolOutcome:
        change = await self._plan(args, context)
        diff = await changes.diff(change, context)
        await changes.commit(change, context)
        summary = f"{_DONE[_verb(args)]} {change.path} (+{diff.additions} -{diff.removals} lines)."
        return ToolOutcome(
            await changes.with_diagnostics(summary, change, context),
            metadata={
                "additions": diff.additions,
                "removals": diff.removals,
                "old_content": change.old_content,
                "new_content": change.after,
            },
        )

    async def _plan(
        self, args: EditArgs, context: ToolContext, *, before_permission: bool = False
    ) -> Change:
        path, before = await changes.current(
            args.file_path, context, before_permission=before_permission
        )
        if not args.replacement.old_string:
            if before is not None:
                raise ToolRefusal(
                    f"{path} already exists. Pass the text to replace as old_string, or use write."
                )
            return Change(path, None, changes.bounded(args.replacement.new_string))
        if before is None:
            raise changes.must_exist(
                path, context, "To create it, leave old_string empty, or use write."
            )
        after = replacement.apply(before.text, args.replacement, newline=before.form.newline)
        return Change(path, before, changes.bounded(after))


_DONE = {"Create": "Created", "Delete text from": "Deleted text from", "Edit": "Edited"}


def _verb(args: EditArgs) -> str:
    if not args.replacement.old_string:
        return "Create"
    return "Edit" if args.replacement.new_string else "Delete text from"
