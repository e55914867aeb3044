"""Completes the path of a file or folder that a person begins to write.

Names that are no valid text, or have control characters, are left out: clients could not show them.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from pathlib import Path

from agents.tools.search.files import files
from agents.tools.search.search_process import binary, options

LISTING_SECONDS = 2.0
# A person who writes a path sends several requests; meanwhile the files are listed once.
CACHED_SECONDS = 5.0
CACHED_FOLDERS = 8
MOST_FILES = 50_000
MOST_BYTES = 8 << 20
MOST_ENTRIES = 10_000

Rank = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PathMatch:
    path: str
    is_folder: bool


@dataclass(frozen=True, slots=True)
class _CachedPaths:
    found: tuple[PathMatch, ...]
    is_complete: bool
    read_at: float


class PathCompletion:
    """The paths of several folders, each listed at most once in some seconds."""

    def __init__(self) -> None:
        self._cached: dict[str, _CachedPaths] = {}
        self._lock = threading.Lock()

    def complete(self, folder: str, query: str, *, limit: int) -> tuple[list[PathMatch], bool]:
        """Returns the best matches below a folder, and whether all were examined. Blocks."""
        paths = self._paths(folder)
        wanted = query.casefold()
        ranked = ((rank_of(wanted, found.path), found.path, found) for found in paths.found)
        best = nsmallest(limit, ((rank, path, each) for rank, path, each in ranked if rank))
        return [found for _, _, found in best], paths.is_complete

    def _paths(self, folder: str) -> _CachedPaths:
        with self._lock:
            known = self._cached.get(folder)
        if known is not None and known.read_at > time.monotonic() - CACHED_SECONDS:
            return known
        paths = _read(Path(folder))
        with self._lock:
            self._cached.pop(folder, None)
            self._cached[folder] = paths
            for oldest in list(self._cached)[:-CACHED_FOLDERS]:
                del self._cached[oldest]
        return paths


path_completion = PathCompletion()


def rank_of(wanted: str, path: str) -> Rank | None:
    """Returns how well a path matches, the best lowest; ``None`` if it does not.

    The last name counts more than the folders, its beginning more than its middle, and characters
    next to each other more than characters with others between them.
    """
    shown = path.casefold()
    name = shown[shown.rfind("/") + 1 :]
    if not wanted:
        return (0, shown.count("/"), 0)
    for grade, is_met in enumerate((name == wanted, name.startswith(wanted), wanted in name)):
        if is_met:
            return (grade, 0, len(path))
    if wanted in shown:
        return (3, 0, len(path))
    for grade, text in ((4, name), (5, shown)):
        if (width := _width(wanted, text)) is not None:
            return (grade, width, len(path))
    return None


def _width(wanted: str, text: str) -> int | None:
    """Returns how many characters the query spans, with others between; ``None``: no match."""
    first = at = text.find(wanted[0])
    for character in wanted[1:]:
        if at < 0:
            return None
        at = text.find(character, at + 1)
    return None if at < 0 else at - first


def _read(folder: Path) -> _CachedPaths:
    began = time.monotonic()
    listed, is_complete = _list(folder)
    paths = {path for path in listed if is_shown(path)}
    folders = {above for path in paths for above in _above(path)}
    found = [
        *(PathMatch(path, False) for path in paths),
        *(PathMatch(path, True) for path in folders),
    ]
    return _CachedPaths(tuple(found), is_complete, began)


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def is_shown(name: str) -> bool:
    """Whether a name is valid text without control characters."""
    return name.isprintable()  # false also for bytes that are no UTF-8


def _list(folder: Path) -> tuple[Iterable[str], bool]:
    """Returns the files that git does not ignore, and whether these are all of them."""
    if not folder.is_dir() or os.path.realpath(folder) != str(folder):
        return [], True  # it is gone, or a link has replaced it
    program = binary()
    if program is None:
        walked = files(folder, hidden=True, seconds=LISTING_SECONDS)
        listed = list(islice(walked, MOST_FILES + 1))
        return listed[:MOST_FILES], len(listed) <= MOST_FILES
    printed, has_ended = _run([program, *options(folder, hidden=True), "--files", "./"], folder)
    names = printed.split(b"\0")[:-1]  # the last is empty, or cut
    decoded = [os.fsdecode(name.removeprefix(b"./")) for name in names[:MOST_FILES]]
    return decoded, has_ended and len(names) <= MOST_FILES


def _run(command: list[str], folder: Path) -> tuple[bytes, bool]:
    """Returns what the program prints, and whether that is all."""
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return b"", False
    expired = threading.Timer(LISTING_SECONDS, process.kill)
    expired.start()
    with process:
        printed = process.stdout.read(MOST_BYTES) if process.stdout is not None else b""
        is_all = len(printed) < MOST_BYTES
        if not is_all:
            process.kill()
    expired.cancel()
    return printed, is_all and process.returncode >= 0


def complete_folder(written: str, *, limit: int) -> tuple[list[str], bool]:
    """Returns the folders whose path begins as written, and whether all were examined. Blocks.

    Without a written path, these are the folders in the server's home folder.
    """
    if written == "~" or written.startswith("~/") or not written:
        written = os.path.expanduser("~") + (written[1:] or "/")  # noqa: PTH111  keeps a slash
    parent, _, beginning = written.rpartition("/")
    if not written.startswith("/") or "\0" in written:
        return [], True
    wanted = beginning.casefold()
    found: list[str] = []
    count = 0
    try:
        with os.scandir(parent or "/") as entries:
            for count, entry in enumerate(entries, 1):
                if count > MOST_ENTRIES:
                    break
                if _is_candidate(entry, wanted):
                    found.append(entry.name)
    except (OSError, ValueError):
        return [], True
    names = nsmallest(limit, found, key=lambda name: (not _begins(name, wanted), name.casefold()))
    return [f"{parent}/{name}" for name in names], count <= MOST_ENTRIES


def _begins(name: str, wanted: str) -> bool:
    return name.casefold().startswith(wanted)


def _is_candidate(entry: os.DirEntry[str], wanted: str) -> bool:
    if entry.name.startswith(".") != wanted.startswith("."):
        return False
    if wanted not in entry.name.casefold() or not is_shown(entry.name):
        return False
    try:
        return entry.is_dir()
    except OSError:
        return False
