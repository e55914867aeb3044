"""Applies several replacements to one file in order, and reports those that fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import (
    BadArguments,
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
from agents.tools.limits import MAX_EDITS, MAX_PATH_BYTES


@dataclass(frozen=True, slots=True)
class MultiEditArgs:
    file_path: str
    edits: tuple[Replacement, ...]


@dataclass(frozen=True, slots=True)
class FailedEdit:
    index: int  # from 1, as the model counts
    error: str
    edit: Replacement


@dataclass(frozen=True, slots=True)
class MultiEditPlan:
    change: Change
    failures: tuple[FailedEdit, ...]
    applied: int


class MultiEdit:
    repetition = Repetition.EFFECT
    spec = ToolSpec(
        name="multiedit",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "The file to change."},
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_EDITS,
                    "description": "The edits, applied in order, each to the result of those before it.",
                    "items": {
                        "type": "object",
                        "properties": replacement.PROPERTIES,
                        "required": ["old_string", "new_string"],
                    },
                },
            },
            "required": ["file_path", "edits"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> MultiEditArgs:
        path = arguments.text(given, "file_path", max_bytes=MAX_PATH_BYTES, blank=False)
        items = arguments.objects(given, "edits", max_items=MAX_EDITS)
        if not items:
            raise BadArguments("edits must contain at least one edit.")
        return MultiEditArgs(
            path, tuple(replacement.parse(item, within=label) for label, item in items)
        )

    async def required_permission(
        self, args: MultiEditArgs, context: ToolContext
    ) -> RequiredPermission | None:
        plan = await self._plan(args, context, before_permission=True)
        if not plan.applied:
            return None  # nothing will be written; ``run`` reports why
        verb = "Edit" if plan.change.before else "Create"
        edits = "1 edit" if plan.applied == 1 else f"{plan.applied} edits"
        return await changes.required_permission(
            self.spec.name,
            plan.change,
            context,
            named=args.file_path,
            description=f"{verb} file {plan.change.path} with {edits}",
        )

    async def run(self, args: MultiEditArgs, context: ToolContext) -> ToolOutcome:
        plan = await self._plan(args, context)
        change = plan.change
        diff = await changes.diff(change, context)
        summary = _summary(plan)
        if plan.applied:
            await changes.commit(change, context)
            summary = await changes.with_diagnostics(summary, change, context)
        metadata: dict[str, Any] = {
            "additions": diff.additions,
            "removals": diff.removals,
            "old_content": change.old_content,
            "new_content": change.after,
            "edits_applied": plan.applied,
        }
        if plan.failures:
            metadata["edits_failed"] = [
                {"index": f.index, "error": f.error, "edit": f.edit.as_arguments()}
                for f in plan.failures
            ]
        return ToolOutcome(summary, is_error=not plan.applied, metadata=metadata)

    async def _plan(
        self, args: MultiEditArgs, context: ToolContext, *, before_permission: bool = False
    ) -> MultiEditPlan:
        path, before = await changes.current(
            args.file_path, context, before_permission=before_permission
        )
        rest = list(enumerate(args.edits, start=1))
        text, newline, applied = "", "\n", 0
        if before is not None:
            text, newline = before.text, before.form.newline
        elif args.edits[0].old_string:
            raise changes.must_exist(
                path, context, "To create it, leave the first edit's old_string empty."
            )
        else:
            text, applied = args.edits[0].new_string, 1
            rest = rest[1:]
        failures: list[FailedEdit] = []
        for index, edit in rest:
            try:
                text = replacement.apply(text, edit, newline=newline)
                applied += 1
            except ToolRefusal as refusal:
                failures.append(FailedEdit(index, str(refusal), edit))
        return MultiEditPlan(Change(path, before, changes.bounded(text)), tuple(failures), applied)


def _summary(plan: MultiEditPlan) -> str:
    path, total = plan.change.path, plan.applied + len(plan.failures)
    lines = [f"Applied {plan.applied} of {total} edits to {path}."]
    if not plan.applied:
        lines = [f"None of the {total} edits could be applied to {path}; it is unchanged."]
    lines += [f"Edit {failure.index} failed: {failure.error}" for failure in plan.failures]
    return "\n".join(lines)
