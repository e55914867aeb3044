"""Finds lines by a pattern in a folder's files, with ripgrep or without."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import SEARCH_LINE_CHARS, SEARCH_RESULTS
from agents.tools.search import search_process
from agents.tools.search.files import list_files
from agents.tools.search.patterns import Pattern
from agents.tools.search.scope import Scope
from agents.tools.search.search_process import Searched, search
from agents.tools.shell.output import readable

_MAX_OUTPUT_BYTES = 8 * 1024 * 1024
_SCANNER = Path(__file__).with_name("scan.py")
_NOT_A_PATTERN = 2
_RECORD = re.compile(rb"([^\0\n]+)\0(\d+):([^\n]*)\n")
# Globs with the same meaning for ripgrep and ``Pattern``; only ``Pattern`` checks others.
_PLAIN_GLOB = re.compile(r"[\w.*?+-]+\Z", re.ASCII)


# A path relative to the scope's root, a line's number, and the line. Most are only counted
# and never shown, so they are not decoded.
Line: TypeAlias = tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class FoundLine:
    by_path: dict[str, list[Line]]
    complete: bool


@dataclass(frozen=True, slots=True)
class LineQuery:
    pattern: str
    literal: bool
    include: Pattern | None


async def find_lines(
    query: LineQuery, scope: Scope, *, context: ToolContext, binary: str | None
) -> FoundLine:
    """Finds the lines that match. Raises ``ToolRefusal`` for an invalid pattern."""
    if binary is None:
        searched, listed = await _search_with_scan(query, scope, context)
    else:
        searched, listed = await _search_with_ripgrep(query, scope, context, binary), True
    if searched.exit_code == _NOT_A_PATTERN and searched.complaint and not searched.output:
        raise ToolRefusal(
            f"pattern is not a valid regular expression: {searched.complaint} "
            "(Set literal_text to search for the text as it is.)"
        )
    by_path = await asyncio.to_thread(_by_path, searched.output, query.include)
    return FoundLine(by_path, searched.complete and listed)


def line_shown(line: Line) -> str:
    text = readable(line[2].removesuffix(b"\r"))[: SEARCH_LINE_CHARS + 40]
    return f"  Line {line[1].decode()}: {text}"


async def _search_with_ripgrep(
    query: LineQuery, scope: Scope, context: ToolContext, binary: str
) -> Searched:
    hidden = query.include is not None and query.include.names_hidden
    argv = [binary, *search_process.options(scope.root, hidden=hidden)]
    argv += ["--line-number", "--with-filename", "--no-heading", "--max-columns-preview"]
    argv += [f"--max-columns={SEARCH_LINE_CHARS}", f"--max-count={SEARCH_RESULTS + 1}"]
    if query.literal:
        argv.append("--fixed-strings")
    if query.include is not None and all(_PLAIN_GLOB.match(n) for n in query.include.names):
        # A type, not a glob: a glob on the command line would override .gitignore.
        argv += [f"--type-add=wanted:{name}" for name in query.include.names if name != "**"]
        if "**" not in query.include.names:
            argv.append("--type=wanted")
    argv += ["-e", query.pattern, "--", f"./{scope.name}"]
    return await search(argv, root=scope.root, context=context, limit_bytes=_MAX_OUTPUT_BYTES)


async def _search_with_scan(
    query: LineQuery, scope: Scope, context: ToolContext
) -> tuple[Searched, bool]:
    complete = True
    paths = [scope.name]
    if not scope.name:
        hidden = query.include is not None and query.include.names_hidden
        listing = await list_files(scope.root, hidden=hidden, context=context, binary=None)
        paths, complete = listing.paths, listing.complete
    if query.include is not None:
        paths = [path for path in paths if query.include.matches(path.split("/"))]
    pattern = re.escape(query.pattern) if query.literal else query.pattern
    searched = await search(
        [sys.executable, "-I", "-S", str(_SCANNER), pattern, str(SEARCH_LINE_CHARS)],
        root=scope.root,
        context=context,
        limit_bytes=_MAX_OUTPUT_BYTES,
        given=b"\0".join(os.fsencode(path) for path in paths) or b"\0",
    )
    return searched, complete


def _by_path(output: bytes, include: Pattern | None) -> dict[str, list[Line]]:
    """Groups lines by path; skips ripgrep's own notes and an incomplete last line."""
    found: dict[str, list[Line]] = {}
    # The lines of a file are adjacent. One expression is many times faster than a loop.
    for raw, lines in groupby(_RECORD.findall(output), key=itemgetter(0)):
        path = os.fsdecode(raw.removeprefix(b"./"))
        if include is None or include.matches(path.split("/")):
            found.setdefault(path, []).extend(lines)
    return found
