"""Finds and reads the files that instruct a model, such as AGENTS.md, with limits.

Looks in the workspace, in every folder above it, and at the user's own files. A folder's
files must lie inside the folder after symlinks are resolved; the user's may lie anywhere.
Raises nothing: a file that cannot be read is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from agents.config.regular_file import Unreadable, read_regular_file

FILE_LIMIT = 64 << 10
TOTAL_LIMIT = 256 << 10
FILES_LIMIT = 100
_PATHS_LIMIT = 500
_ENTRIES_LIMIT = 500  # of all folders together
_DEPTH_LIMIT = 4
_LEVELS_LIMIT = 64
_SETTLED_NS = 2_000_000_000  # a folder that changed later may change again with the same time
_FOLDERS_KEPT = 1_000

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
_FIRST_NAMES = frozenset(name.partition("/")[0] for name in KNOWN_NAMES)


# By folder and names: the folder's time and inode, and which of the names exist in it.
_present_names: dict[tuple[str, frozenset[str]], tuple[int, int, frozenset[str]]] = {}


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
    """Returns the context files, from the most general to the nearest. Blocks on the disk.

    The user's own come first, then those of the folders above from the farthest down, then the
    workspace's. If there are too many, the nearest are kept.
    """
    collected = _Collected()
    own = [path for path in global_context_paths[:_PATHS_LIMIT] if path.startswith("/")]
    try:
        inside = os.path.realpath(workspace)
    except ValueError:  # a NUL: no such folder
        return tuple(collected.take(own, within=None))
    configured = [path for path in context_paths[:_PATHS_LIMIT] if path not in KNOWN_NAMES]
    paths = [*_known_in(workspace), *(os.path.join(workspace, path) for path in configured)]  # noqa: PTH118  an absolute one wins
    groups = [collected.take(paths, within=inside)]
    users = collected.take(own, within=None)
    trusted = frozenset({0, os.getuid(), *_owner(inside)})
    for parent in list(PurePath(inside).parents)[:_LEVELS_LIMIT]:
        folder = str(parent).rstrip("/")
        groups.append(collected.take(_known_in(folder), within=folder or "/", owners=trusted))
    groups.append(users)
    return tuple(file for group in reversed(groups) for file in group)


def _known_in(folder: str) -> list[str]:
    """Returns the paths of the well-known files and folders that exist."""
    try:
        present = names_in(folder or "/", _FIRST_NAMES)
    except (OSError, ValueError):
        return []
    if not present:
        return []
    return [f"{folder}/{name}" for name in KNOWN_NAMES if name.partition("/")[0] in present]


def _owner(folder: str) -> list[int]:
    try:
        return [Path(folder).stat().st_uid]
    except (OSError, ValueError):
        return []


@dataclass(slots=True)
class _Collected:
    files: list[ContextFile] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    room: int = TOTAL_LIMIT
    entries: int = _ENTRIES_LIMIT
    # Whose files count: in a shared folder above a workspace anyone could leave one. None: all.
    owners: frozenset[int] | None = None

    def take(
        self, paths: Iterable[str], *, within: str | None, owners: frozenset[int] | None = None
    ) -> list[ContextFile]:
        """Reads these paths; returns the files that were not read before."""
        self.owners = owners
        before = len(self.files)
        for path in paths:
            self._add(path, within=within)
        return self.files[before:]

    def _add(self, path: str, *, within: str | None) -> None:
        """Reads a file, or every file of a folder."""
        try:
            if not os.path.lexists(path):
                return  # most do not exist, and each run looks for all of them
            if os.path.isdir(path):  # noqa: PTH112  pathlib's raises where it may not look
                if within is None or _is_within(path, within):
                    for file in self._walk(path, _DEPTH_LIMIT):
                        self._read(file, within=within)
            else:
                self._read(path, within=within)
        except (OSError, ValueError):
            return  # a NUL in a configured path, or a folder that was removed

    def _walk(self, folder: str, depth: int) -> Iterator[str]:
        for name in sorted(self._names(folder)):
            path = f"{folder.rstrip('/')}/{name}"
            if os.path.isdir(path):  # noqa: PTH112  pathlib's raises where it may not look
                if depth > 1 and not os.path.islink(path):  # noqa: PTH114  and here
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
            return  # the same file under another name, or not a text file
        if self.owners is not None and content.owner not in self.owners:
            return
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


def names_in(folder: str, wanted: frozenset[str]) -> frozenset[str]:
    """Returns the wanted names that exist in the folder, files or not. Blocks on the disk.

    Cached while the folder is unchanged: every run looks for some twenty names in every folder
    above its workspace, and almost none of them exist.

    Raises ``OSError``, and ``ValueError`` for a NUL in the folder's path.
    """
    state = os.stat(folder)  # noqa: PTH116  called for every run
    key = (folder, wanted)
    known = _present_names.get(key)
    if known is not None and known[:2] == (state.st_mtime_ns, state.st_ino):
        return known[2]
    # Looks up each name instead of listing the folder, which may be very large.
    present = frozenset(name for name in wanted if os.path.lexists(f"{folder}/{name}"))
    if time.time_ns() - state.st_mtime_ns > _SETTLED_NS:
        if len(_present_names) >= _FOLDERS_KEPT:
            _present_names.clear()
        _present_names[key] = (state.st_mtime_ns, state.st_ino, present)
    return present
