"""Files that tell a model how to work here: AGENTS.md and its kin.

Finds and reads them, bounded. A workspace's own stay inside the workspace, symlinks
followed; the user's may lie anywhere. Raises nothing: what cannot be read is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workspaces.config.regular_file import Unreadable, read_regular_file

FILE_LIMIT = 64 << 10
TOTAL_LIMIT = 256 << 10
FILES_LIMIT = 100
_PATHS_LIMIT = 500
_ENTRIES_LIMIT = 500  # of all folders together
_DEPTH_LIMIT = 4

_KNOWN = ("AGENTS", "CRUSH", "CLAUDE", "GEMINI")
KNOWN_NAMES = (
    *(
        f"{form}{suffix}"
        for name in _KNOWN
        for suffix in (".md", ".local.md")
        for form in (name, name.capitalize(), name.lower())
    ),
    ".cursorrules",
    ".cursor/rules/",
    ".github/copilot-instructions.md",
)


@dataclass(frozen=True, slots=True)
class ContextFile:
    path: str
    text: str = field(repr=False)


def find_context_files(
    workspace: str,
    *,
    context_paths: Sequence[str] = (),
    global_context_paths: Sequence[str] = (),
) -> tuple[ContextFile, ...]:
    """The user's own first, then the workspace's. Blocks on the disk."""
    collected = _Collected()
    for path in global_context_paths[:_PATHS_LIMIT]:
        if os.path.isabs(path):  # noqa: PTH117
            collected.add(path, within=None)
    try:
        inside = os.path.realpath(workspace)
    except ValueError:
        return tuple(collected.files)  # a NUL: no such folder
    for path in dict.fromkeys((*KNOWN_NAMES, *context_paths[:_PATHS_LIMIT])):
        collected.add(os.path.join(workspace, path), within=inside)  # noqa: PTH118
    return tuple(collected.files)


@dataclass(slots=True)
class _Collected:
    files: list[ContextFile] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    room: int = TOTAL_LIMIT
    entries: int = _ENTRIES_LIMIT

    def add(self, path: str, *, within: str | None) -> None:
        """A file, or every file of a folder."""
        try:
            if os.path.isdir(path):  # noqa: PTH112
                if within is None or _is_within(path, within):
                    for file in self._walk(path, _DEPTH_LIMIT):
                        self._read(file, within=within)
            else:
                self._read(path, within=within)
        except (OSError, ValueError):
            return  # a NUL in a configured path, a folder that went away

    def _walk(self, folder: str, depth: int) -> Iterator[str]:
        for name in sorted(self._names(folder)):
            path = f"{folder.rstrip('/')}/{name}"
            if os.path.isdir(path):  # noqa: PTH112
                if depth > 1 and not os.path.islink(path):  # noqa: PTH114
                    yield from self._walk(path, depth - 1)
            else:
                yield path

    def _names(self, folder: str) -> Iterable[str]:
        with os.scandir(folder) as entries:
            for entry in entries:
                self.entries -= 1
                if self.entries < 0:
                    return
                yield entry.name

    def _read(self, path: str, *, within: str | None) -> None:
        if self.room <= 0 or len(self.files) >= FILES_LIMIT:
            return
        if within is not None and not _is_within(path, within):
            return
        try:
            content = read_regular_file(path, limit=min(FILE_LIMIT, self.room))
        except Unreadable:
            return
        if content.identity in self.seen or b"\0" in content.data:
            return  # the same file by another name, or no text
        self.seen.add(content.identity)
        text = content.data.decode("utf-8-sig", "ignore" if content.truncated else "replace")
        if not text.strip():
            return
        self.room -= len(content.data)
        cut = "\n… (the rest is left out: the file is too large)" if content.truncated else ""
        self.files.append(ContextFile(str(Path(path)), text + cut))


def _is_within(path: str, folder: str) -> bool:
    real = os.path.realpath(path)
    return real == folder or real.startswith(folder.rstrip("/") + "/")
