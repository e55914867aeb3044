"""Writes a whole file, new or instead of what it held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import Question, ToolContext, ToolOutcome, ToolRefusal
from agents.tools.description import load_description
from agents.tools.files import changes, replacing
from agents.tools.files.changes import Change
from agents.tools.limits import MAX_PATH_BYTES, MAX_TEXT_BYTES


@dataclass(frozen=True, slots=True)
class WriteArgs:
    file_path: str
    content: str


class Write:
    parallel = False
    spec = ToolSpec(
        name="write",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "description": "The file to write."},
                "content": {"type": "string", "description": "All that the file will hold."},
            },
            "required": ["file_path", "content"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> WriteArgs:
        return WriteArgs(
            arguments.text(given, "file_path", max_bytes=MAX_PATH_BYTES, blank=False),
            arguments.text(given, "content", max_bytes=MAX_TEXT_BYTES),
        )

    async def question(self, args: WriteArgs, context: ToolContext) -> Question | None:
        change = await self._plan(args, context, for_question=True)
        verb = "Overwrite" if change.before else "Create"
        return await changes.question(
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
        told = f"{verb} {change.path} (+{diff.additions} -{diff.removals} lines)."
        return ToolOutcome(
            await changes.judged(told, change, context),
            metadata={
                "diff": diff.text,
                "additions": diff.additions,
                "removals": diff.removals,
            },
        )

    async def _plan(
        self, args: WriteArgs, context: ToolContext, *, for_question: bool = False
    ) -> Change:
        path, before = await changes.current(args.file_path, context, for_question=for_question)
        content = args.content
        if before is not None:
            if before.form.newline != "\n":
                content = replacing.with_plain_ends(content)
            if content == before.text:
                raise ToolRefusal(f"{path} holds exactly this already; nothing was written.")
        return Change(path, before, changes.bounded(content))
