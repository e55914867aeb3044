"""Finds lines by a regular expression or a text."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments, limits
from agents.tools.contract import BadArguments, Question, ToolContext, ToolOutcome
from agents.tools.description import load_description
from agents.tools.files.paths import shown
from agents.tools.search import ripgrep
from agents.tools.search.lines import FoundLine, Wanted, find_lines, line_shown
from agents.tools.search.newest import newest_first
from agents.tools.search.patterns import BadPattern, Pattern
from agents.tools.search.scope import Scope, question, scope
from agents.tools.shell.watched import readable


@dataclass(frozen=True, slots=True)
class GrepArgs:
    wanted: Wanted
    path: str


class Grep:
    parallel = True
    spec = ToolSpec(
        name="grep",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The regular expression."},
                "path": {
                    "type": "string",
                    "description": "The folder or file to search (default: the working folder).",
                },
                "include": {
                    "type": "string",
                    "description": "Only files whose names match, for example *.{ts,tsx}",
                },
                "literal_text": {
                    "type": "boolean",
                    "description": "Take pattern as plain text (default false).",
                },
            },
            "required": ["pattern"],
        },
    )

    def __init__(self, *, binary: str | None) -> None:
        """Without ripgrep's ``binary`` the search is done in Python."""
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
        return GrepArgs(Wanted(written, literal, pattern), path)

    async def question(self, args: GrepArgs, context: ToolContext) -> Question | None:
        wanted = args.wanted
        params = {
            "pattern": wanted.pattern,
            "path": args.path,
            "include": wanted.include.written if wanted.include else "",
            "literal_text": wanted.literal,
        }
        return await question(self.spec.name, "read", args.path, params, context)

    async def run(self, args: GrepArgs, context: ToolContext) -> ToolOutcome:
        where = await asyncio.to_thread(scope, args.path, context, file_allowed=True)
        found = await find_lines(args.wanted, where, context=context, binary=self._binary)
        return await asyncio.to_thread(_told, found, where, context)


def _told(found: FoundLine, where: Scope, context: ToolContext) -> ToolOutcome:
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
    told = limits.SEARCH_RESULTS - rest
    total = sum(map(len, found.by_path.values()))
    truncated = total > told or not all_seen or not found.complete
    if not told:
        content = "No matches found."
    else:
        content = "\n\n".join([f"Found {told} {'match' if told == 1 else 'matches'}", *blocks])
    if truncated:
        content += "\n\n(There are more: narrow the pattern, the path or include.)"
    return ToolOutcome(content, metadata={"number_of_matches": told, "truncated": truncated})


GREP = Grep(binary=ripgrep.binary())
