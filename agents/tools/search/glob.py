"""Finds files by their names."""

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
from agents.tools.search.files import Listing, list_files, newest_first
from agents.tools.search.patterns import BadPattern, Pattern
from agents.tools.search.scope import Scope, required_permission, scope
from agents.tools.shell.output import readable


@dataclass(frozen=True, slots=True)
class GlobArgs:
    pattern: Pattern
    path: str


class Glob:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="glob",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "For example **/*.py"},
                "path": {
                    "type": "string",
                    "description": "The folder to search (default: the working directory).",
                },
            },
            "required": ["pattern"],
        },
    )

    def __init__(self, *, binary: str | None) -> None:
        """``binary`` is ripgrep's path; without it the search runs in Python."""
        self._binary = binary

    def parse(self, given: Mapping[str, Any]) -> GlobArgs:
        most = limits.MAX_PATTERN_CHARS
        written = arguments.text(given, "pattern", max_bytes=most, blank=False)
        path = arguments.text(given, "path", default="", max_bytes=limits.MAX_PATH_BYTES)
        try:
            return GlobArgs(Pattern(written), path)
        except BadPattern as bad:
            raise BadArguments(f"pattern: {bad}") from None

    async def required_permission(
        self, args: GlobArgs, context: ToolContext
    ) -> RequiredPermission | None:
        params = {"pattern": args.pattern.written, "path": args.path}
        return await required_permission(self.spec.name, "list", args.path, params, context)

    async def run(self, args: GlobArgs, context: ToolContext) -> ToolOutcome:
        where = await asyncio.to_thread(scope, args.path, context, file_allowed=False)
        listing = await list_files(
            where.root,
            hidden=args.pattern.names_hidden,
            context=context,
            binary=self._binary,
        )
        return await asyncio.to_thread(_outcome, args, where, listing, context)


def _outcome(args: GlobArgs, where: Scope, listing: Listing, context: ToolContext) -> ToolOutcome:
    matching = (path for path in listing.paths if args.pattern.matches(path.split("/")))
    ordered, all_seen = newest_first(where.root, matching)
    names = ordered[: limits.SEARCH_RESULTS]
    truncated = len(ordered) > len(names) or not all_seen or not listing.complete
    # A name may contain line breaks and bytes that are not text.
    lines = [
        readable(shown(where.root / name, context).encode(errors="surrogateescape"))
        for name in names
    ]
    content = "\n".join(lines) or "No files found."
    if truncated:
        content += "\n\n(There are more results: narrow the pattern or the path.)"
    return ToolOutcome(content, metadata={"number_of_files": len(names), "truncated": truncated})


GLOB = Glob(binary=search_process.binary())
