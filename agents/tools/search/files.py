"""Lists the files of a folder that a search covers, with ripgrep or without."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from agents.tools.contract import ToolContext
from agents.tools.limits import SEARCH_SECONDS
from agents.tools.search import search_process
from agents.tools.search.search_process import search

_MAX_IGNORE_BYTES = 1024 * 1024


def files(root: Path, *, hidden: bool, seconds: float) -> Iterator[str]:
    """Yields paths relative to the root until the timeout."""
    deadline = time.monotonic() + seconds
    waiting: list[tuple[str, tuple[tuple[str, GitIgnoreSpec], ...]]] = [("", _above(root))]
    while waiting and time.monotonic() < deadline:
        folder, rules = waiting.pop()
        own = _rules(root / folder)
        if own is not None:
            rules = (*rules, (folder, own))
        try:
            with os.scandir(root / folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            if entry.name == ".git" or (not hidden and entry.name.startswith(".")):
                continue
            path = f"{folder}{entry.name}"
            try:
                if entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if not _ignored(f"{path}/", rules):
                        waiting.append((f"{path}/", rules))
                elif entry.is_file(follow_symlinks=False) and not _ignored(path, rules):
                    yield path
            except OSError:
                continue


def _above(root: Path) -> tuple[tuple[str, GitIgnoreSpec], ...]:
    """Returns the rules of the parent folders up to the repository's root, the nearest last."""
    chain: list[tuple[str, GitIgnoreSpec]] = []
    below = ""
    if (root / ".git").exists():
        return ()
    for folder in root.parents:
        below = f"{root.relative_to(folder)}/"
        rules = _rules(folder)
        if rules is not None:
            chain.append((f"<{below}", rules))
        if (folder / ".git").exists():
            return tuple(reversed(chain))
    return ()  # not a repository: rules of parent folders do not apply


def _ignored(path: str, rules: tuple[tuple[str, GitIgnoreSpec], ...]) -> bool:
    for where, spec in reversed(rules):
        below = f"{where[1:]}{path}" if where.startswith("<") else path[len(where) :]
        verdict = spec.check_file(below).include
        if verdict is not None:
            return verdict
    return False


def _rules(folder: Path) -> GitIgnoreSpec | None:
    try:
        with (folder / ".gitignore").open("rb") as file:
            text = file.read(_MAX_IGNORE_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return None
    try:
        return GitIgnoreSpec.from_lines(text.splitlines())
    except ValueError:  # an invalid file hides nothing
        return None


_MAX_LIST_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Listing:
    paths: list[str]  # relative to the root
    complete: bool


async def list_files(
    root: Path, *, hidden: bool, context: ToolContext, binary: str | None
) -> Listing:
    if binary is None:
        return await _walked(root, hidden=hidden)
    argv = [binary, *search_process.options(root, hidden=hidden), "--files", "./"]
    searched = await search(argv, root=root, context=context, limit_bytes=_MAX_LIST_BYTES)
    names = searched.output.split(b"\0")[:-1]  # the last is empty, or cut
    return Listing([os.fsdecode(n.removeprefix(b"./")) for n in names], searched.complete)


async def _walked(root: Path, *, hidden: bool) -> Listing:
    stop = threading.Event()

    def collect() -> Listing:
        paths: list[str] = []
        size = 0
        for path in files(root, hidden=hidden, seconds=SEARCH_SECONDS):
            size += len(path)
            if stop.is_set() or size > _MAX_LIST_BYTES:
                return Listing(paths, complete=False)
            paths.append(path)
        return Listing(paths, complete=True)

    try:
        return await asyncio.to_thread(collect)
    finally:
        stop.set()  # a cancel does not stop the thread


_STATTED = 20_000


def newest_first(root: Path, paths: Iterable[str]) -> tuple[list[str], bool]:
    """Returns the sorted paths, and whether all files were examined. Blocks."""
    known: list[tuple[float, str]] = []
    for path in paths:
        if len(known) == _STATTED:
            return _ordered(known), False
        try:
            # No ``Path`` object: it would be too slow for thousands of files.
            changed = os.lstat(f"{root}/{path}").st_mtime
        except OSError:  # gone since it was listed
            continue
        known.append((-changed, path))
    return _ordered(known), True


def _ordered(known: list[tuple[float, str]]) -> list[str]:
    return [path for _, path in sorted(known)]
