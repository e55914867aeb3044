"""Finds lines by a regular expression or a text."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments, limits
from agents.tools.contract import (
    BadArguments,
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    load_description,
)
from agents.tools.files.paths import shown
from agents.tools.search import search_process
from agents.tools.search.files import newest_first
from agents.tools.search.lines import FoundLine, LineQuery, find_lines, line_shown
from agents.tools.search.patterns import BadPattern, Pattern
from agents.tools.search.scope import Scope, required_permission, scope
from agents.tools.shell.output import readable


@dataclass(frozen=True, slots=True)
class GrepArgs:
    query: LineQuery
    path: str


class Grep:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="grep",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The regular expression."},
                "path": {
                    "type": "string",
                    "description": "The folder or file to search (default: the working directory).",
                },
                "include": {
                    "type": "string",
                    "description": "Only files whose names match, for example *.{ts,tsx}",
                },
                "literal_text": {
                    "type": "boolean",
                    "description": "Treat pattern as plain text (default false).",
                },
            },
            "required": ["pattern"],
        },
    )

    def __init__(self, *, binary: str | None) -> None:
        """``binary`` is ripgrep's path; without it the search runs in Python."""
        self._binary = binary

    def parse(self, given: Mapping[str, Any]) -> GrepArgs:
        most = limits.MAX_PATTERN_CHARS
        written = arguments.text(given, "pattern", max_bytes=most)
        if not written:
            raise BadArguments("pattern must not be empty.")
        path = arguments.text(given, "path", default="", max_bytes=limits.MAX_PATH_BYTES)
        include = arguments.text(given, "include", default="", max_bytes=most)
        literal = arguments.flag(given, "literal_text")
        try:
            pattern = Pattern(include) if include.strip() else None
        except BadPattern as bad:
            raise BadArguments(f"include: {bad}") from None
        return GrepArgs(LineQuery(written, literal, pattern), path)

    async def required_permission(
        self, args: GrepArgs, context: ToolContext
    ) -> RequiredPermission | None:
        query = args.query
        params = {
            "pattern": query.pattern,
            "path": args.path,
            "include": query.include.written if query.include else "",
            "literal_text": query.literal,
        }
        return await required_permission(self.spec.name, "read", args.path, params, context)

    async def run(self, args: GrepArgs, context: ToolContext) -> ToolOutcome:
        where = await asyncio.to_thread(scope, args.path, context, file_allowed=True)
        found = await find_lines(args.query, where, context=context, binary=self._binary)
        return await asyncio.to_thread(_outcome, found, where, context)


def _outcome(found: FoundLine, where: Scope, context: ToolContext) -> ToolOutcome:
    ordered, all_seen = newest_first(where.root, found.by_path)
    rest = limits.SEARCH_RESULTS
    blocks: list[str] = []
    for path in ordered:
        if not rest:
            break
        lines = found.by_path[path][:rest]
        rest -= len(lines)
        name = readable(shown(where.root / path, context).encode(errors="surrogateescape"))
        blocks.append("\n".join([f"{name}:", *map(line_shown, lines)]))
    matches = limits.SEARCH_RESULTS - rest
    total = sum(map(len, found.by_path.values()))
    truncated = total > matches or not all_seen or not found.complete
    if not matches:
        content = "No matches found."
    else:
        content = "\n\n".join(
            [f"Found {matches} {'match' if matches == 1 else 'matches'}", *blocks]
        )
    if truncated:
        content += "\n\n(There are more results: narrow the pattern, the path or include.)"
    return ToolOutcome(content, metadata={"number_of_matches": matches, "truncated": truncated})


GREP = Grep(binary=search_process.binary())
