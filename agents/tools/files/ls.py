"""Shows a folder as a tree, breadth first if it is too large to show whole."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments, limits
from agents.tools.contract import (
    BadArguments,
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
    load_description,
)
from agents.tools.files import approval_snapshot, safe_files
from agents.tools.files.paths import is_inside, is_kernel_path, resolve
from agents.tools.search.patterns import BadPattern, Pattern

# These folders are shown but not listed: programs generate their many files.
_CLOSED = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".idea",
        ".gradle",
        ".terraform",
        "target",
    }
)
# The server's own data is left out, unless it is the requested path.
_OWN = ".crush"
_SCANNED = 50_000
_MAX_DEPTH = 100
_MAX_IGNORE = 100


@dataclass(frozen=True, slots=True)
class LsArgs:
    path: str = ""
    ignore: tuple[str, ...] = ()
    ignored: tuple[Pattern, ...] = ()  # the same, parsed
    depth: int = 0  # 0: as deep as it goes


@dataclass(slots=True)
class _Folder:
    path: Path
    parts: tuple[str, ...]
    lines: list[tuple[str, _Folder | None]] = field(default_factory=list)


class Ls:
    repetition = Repetition.PURE
    spec = ToolSpec(
        name="ls",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "The folder to list (default: the working directory).",
                },
                "ignore": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Glob patterns of entries to leave out.",
                },
                "depth": {
                    "type": "integer",
                    "description": "Levels of folders to show (default: all).",
                },
            },
        },
    )

    def parse(self, given: Mapping[str, Any]) -> LsArgs:
        path = arguments.text(given, "path", default="", max_bytes=limits.MAX_PATH_BYTES)
        depth = arguments.count(given, "depth", default=0, most=_MAX_DEPTH)
        most = limits.MAX_PATTERN_CHARS
        ignore = arguments.texts(given, "ignore", max_items=_MAX_IGNORE, max_bytes=most)
        try:
            return LsArgs(path, ignore, tuple(Pattern(one) for one in ignore), depth)
        except BadPattern as bad:
            raise BadArguments(f"ignore: {bad}") from None

    async def required_permission(
        self, args: LsArgs, context: ToolContext
    ) -> RequiredPermission | None:
        path = await asyncio.to_thread(resolve, args.path, context)
        approval_snapshot.remember(context, path)
        if is_inside(path, context.working_dir):
            return None
        return RequiredPermission(
            tool_name=self.spec.name,
            action="list",
            path=str(path),
            description=f"List directory outside of the working directory: {path}",
            params={"path": args.path, "ignore": list(args.ignore), "depth": args.depth},
        )

    async def run(self, args: LsArgs, context: ToolContext) -> ToolOutcome:
        return await asyncio.to_thread(_tree, args, context)


def _tree(args: LsArgs, context: ToolContext) -> ToolOutcome:
    root = _Folder(resolve(args.path, context), ())
    approval_snapshot.check(context, root.path)
    if is_kernel_path(root.path):
        raise ToolRefusal(f"{root.path} is not a folder on a disk; it cannot be listed.")
    depth = args.depth or _MAX_DEPTH
    count, truncated = 0, False
    waiting = deque([root])
    while waiting and count < limits.LIST_ENTRIES:
        here = waiting.popleft()
        names, more = _entries(here, strict=here is root)
        truncated |= more
        for entry in names:
            parts = (*here.parts, entry.name)
            if entry.name == _OWN or str(here.path / entry.name) == context.data_dir:
                continue
            if any(pattern.matches(parts) for pattern in args.ignored):
                continue
            if count >= limits.LIST_ENTRIES:
                truncated = True
                break
            count += 1
            inner = _Folder(here.path / entry.name, parts) if _is_folder(entry) else None
            here.lines.append((_label(entry, closed=entry.name in _CLOSED), inner))
            if inner is not None and entry.name not in _CLOSED and len(parts) < depth:
                waiting.append(inner)
    truncated |= bool(waiting)
    lines = [f"- {root.path}/", *_drawn(root)]
    if truncated:
        lines.append(f"\n(Only {count:,} entries are shown. List a subfolder, or set ignore.)")
    return ToolOutcome(
        "\n".join(lines), metadata={"number_of_files": count, "truncated": truncated}
    )


def _entries(folder: _Folder, *, strict: bool) -> tuple[list[os.DirEntry[str]], bool]:
    found: list[os.DirEntry[str]] = []
    try:
        with safe_files.listed(folder.path) as entries:
            for entry in entries:
                if len(found) == _SCANNED:
                    return sorted(found, key=lambda entry: entry.name), True
                _is_folder(entry)  # the entry caches the type while the folder is open
                found.append(entry)
    except OSError as error:
        if strict:
            raise ToolRefusal(f"{folder.path} cannot be listed: {error.strerror}.") from None
    return sorted(found, key=lambda entry: entry.name), False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _label(entry: os.DirEntry[str], *, closed: bool) -> str:
    # A name may contain anything except "/": escape line breaks and invalid bytes.
    name = entry.name if entry.name.isprintable() else ascii(entry.name)[1:-1]
    if entry.is_symlink():
        return f"{name} (link)"
    if _is_folder(entry):
        return f"{name}/ (not listed)" if closed else f"{name}/"
    return name


def _drawn(folder: _Folder) -> list[str]:
    indent = "  " * (len(folder.parts) + 1)
    lines: list[str] = []
    for label, inner in folder.lines:
        lines.append(f"{indent}- {label}")
        if inner is not None:
            lines += _drawn(inner)
    return lines
