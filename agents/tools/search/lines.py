"""Finds lines by a pattern in a folder's files, with ripgrep or without."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import SEARCH_LINE_CHARS, SEARCH_RESULTS
from agents.tools.search import ripgrep
from agents.tools.search.files import list_files
from agents.tools.search.patterns import Pattern
from agents.tools.search.scope import Scope
from agents.tools.search.searcher import Searched, search
from agents.tools.shell.output import readable

_MAX_OUTPUT_BYTES = 8 * 1024 * 1024
_SCANNER = Path(__file__).with_name("scan.py")
_NOT_A_PATTERN = 2
# Only what means the same to ripgrep and to us; any other is judged by us alone.
_PLAIN_GLOB = re.compile(r"[\w.*?+-]+\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Line:
    path: str  # relative to the scope's root
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    lines: list[Line]
    complete: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    pattern: str
    literal: bool
    include: Pattern | None


async def find_lines(
    wanted: Wanted, scope: Scope, *, context: ToolContext, binary: str | None
) -> Found:
    """Raises ``ToolRefusal`` when the pattern is not valid."""
    if binary is None:
        searched, listed = await _scanned(wanted, scope, context)
    else:
        searched, listed = await _ripped(wanted, scope, context, binary), True
    if searched.exit_code == _NOT_A_PATTERN and searched.complaint and not searched.output:
        raise ToolRefusal(
            f"pattern is not a valid regular expression: {searched.complaint} "
            "(Set literal_text to search for the text as it is.)"
        )
    lines = [
        line
        for line in _parsed(searched.output)
        if wanted.include is None or wanted.include.matches(line.path.split("/"))
    ]
    return Found(lines, searched.complete and listed)


async def _ripped(wanted: Wanted, scope: Scope, context: ToolContext, binary: str) -> Searched:
    hidden = wanted.include is not None and wanted.include.names_hidden
    argv = [binary, *ripgrep.options(scope.root, hidden=hidden)]
    argv += ["--line-number", "--with-filename", "--no-heading", "--max-columns-preview"]
    argv += [f"--max-columns={SEARCH_LINE_CHARS}", f"--max-count={SEARCH_RESULTS + 1}"]
    if wanted.literal:
        argv.append("--fixed-strings")
    if wanted.include is not None and all(_PLAIN_GLOB.match(n) for n in wanted.include.names):
        # A type, not a glob: a glob on the command line would override .gitignore.
        argv += [f"--type-add=wanted:{name}" for name in wanted.include.names if name != "**"]
        if "**" not in wanted.include.names:
            argv.append("--type=wanted")
    argv += ["-e", wanted.pattern, "--", f"./{scope.name}"]
    return await search(argv, root=scope.root, context=context, limit_bytes=_MAX_OUTPUT_BYTES)


async def _scanned(wanted: Wanted, scope: Scope, context: ToolContext) -> tuple[Searched, bool]:
    complete = True
    paths = [scope.name]
    if not scope.name:
        hidden = wanted.include is not None and wanted.include.names_hidden
        listing = await list_files(scope.root, hidden=hidden, context=context, binary=None)
        paths, complete = listing.paths, listing.complete
    if wanted.include is not None:
        paths = [path for path in paths if wanted.include.matches(path.split("/"))]
    pattern = re.escape(wanted.pattern) if wanted.literal else wanted.pattern
    searched = await search(
        [sys.executable, "-I", "-S", str(_SCANNER), pattern, str(SEARCH_LINE_CHARS)],
        root=scope.root,
        context=context,
        limit_bytes=_MAX_OUTPUT_BYTES,
        given=b"\0".join(os.fsencode(path) for path in paths) or b"\0",
    )
    return searched, complete


def _parsed(output: bytes) -> list[Line]:
    lines: list[Line] = []
    at = 0
    while True:
        middle = output.find(b"\0", at)
        end = output.find(b"\n", middle)
        if middle < 0 or end < 0:  # a record cut at its end is dropped
            return lines
        # A note of the searcher's own ("binary file matches") may stand before the path.
        path = output[at:middle].rpartition(b"\n")[2].removeprefix(b"./")
        number, _, text = output[middle + 1 : end].partition(b":")
        at = end + 1
        if number.isdigit():
            shown = readable(text.removesuffix(b"\r"))[: SEARCH_LINE_CHARS + 40]
            lines.append(Line(os.fsdecode(path), int(number), shown))
