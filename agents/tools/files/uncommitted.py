"""The branch of a folder, and how many lines differ from its newest commit, in the background.

Git compares with a git folder of our own, which has the index and the objects of the repository but
none of its settings. So no filter, text conversion, hook, monitor or submodule of it is used.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.tools.files.committed import NoCommit, read_git

SECONDS = 3.0  # for each command of git
WORKERS = 2
FRESH_SECONDS = 4.0
# A comparison that takes long is repeated rarely: it uses at most 5 % of a processor.
REST = 20.0
MOST_FOLDERS = 1_000
BRANCH_CHARS = 200
# A larger file counts as binary, so that it is not read into memory.
LARGEST_FILE = "8m"

_WHERE = ("--show-toplevel", "--git-path", "objects", "--git-path", "index", "--show-object-format")
_LINES = re.compile(rb"(\d+) (insertion|deletion)")


@dataclass(frozen=True, slots=True)
class Uncommitted:
    branch: str  # or the beginning of the commit's id, where no branch is checked out
    added: int | None  # unknown if the comparison fails or takes too long
    removed: int | None


def git_state(found: Uncommitted | None) -> dict[str, Any] | None:
    """Returns the value as clients see it."""
    if found is None:
        return None
    return {"branch": found.branch, "added": found.added, "removed": found.removed}


def read_uncommitted(folder: Path) -> Uncommitted | None:
    """Returns the lines that differ from the newest commit; ``None`` without one. Blocks."""
    try:
        where = read_git(
            folder, ["rev-parse", "--path-format=absolute", *_WHERE], seconds=SECONDS
        ).decode("utf-8", "surrogateescape")
        # A path with a line break gives more lines, and is not supported.
        top, objects, index, kind = where.splitlines()
        commit = read_git(folder, ["rev-parse", "--verify", "HEAD^{commit}"], seconds=SECONDS)
        found = read_git(folder, ["rev-parse", "--abbrev-ref", "HEAD"], seconds=SECONDS)
    except (NoCommit, ValueError):
        return None
    branch = found.decode("utf-8", "replace").strip()
    added, removed = _compare(folder, top, objects, index, kind, commit.decode().strip())
    shown = "".join(each for each in branch if each.isprintable())[:BRANCH_CHARS]
    return Uncommitted(commit.decode()[:8] if shown == "HEAD" else shown, added, removed)


def _compare(
    folder: Path, top: str, objects: str, index: str, kind: str, commit: str
) -> tuple[int | None, int | None]:
    """Returns the added and removed lines below the folder."""
    with tempfile.TemporaryDirectory(prefix="crush-git-") as made:
        own = Path(made)
        (own / "objects").mkdir()
        (own / "refs").mkdir()
        (own / "HEAD").write_text("ref: refs/heads/none\n")
        extension = "[extensions]\n\tobjectFormat = sha256\n" if kind == "sha256" else ""
        version = 1 if extension else 0
        (own / "config").write_text(
            f"[core]\n\trepositoryFormatVersion = {version}\n\tbigFileThreshold = {LARGEST_FILE}\n"
            + extension
        )
        variables = {
            "GIT_DIR": made,
            "GIT_WORK_TREE": top,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_INDEX_FILE": index,
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        options = ["--shortstat", "--no-ext-diff", "--no-textconv", "--no-renames"]
        options += ["--ignore-submodules=all", "--no-color"]
        try:
            printed = read_git(
                folder, ["diff", *options, commit, "--", "."], variables=variables, seconds=SECONDS
            )
        except NoCommit:
            return None, None
    counts = {what: int(count) for count, what in _LINES.findall(printed)}
    return counts.get(b"insertion", 0), counts.get(b"deletion", 0)


@dataclass(slots=True)
class _CachedFolder:
    value: Uncommitted | None = None
    renew_at: float = 0.0
    running: Future[None] | None = None


class UncommittedCache:
    """The newest known values. A value that is older than some seconds is read again."""

    def __init__(self) -> None:
        self._entries: dict[str, _CachedFolder] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="uncommitted")

    def get(
        self, folders: Iterable[str], *, at_most_seconds: float
    ) -> Mapping[str, Uncommitted | None]:
        """Returns the values, and waits for those of new folders, together at most so long."""
        wanted = list(folders)
        with self._lock:
            if len(self._entries) + len(wanted) > MOST_FOLDERS:
                self._entries.clear()
            entries = {
                folder: self._entries.setdefault(folder, _CachedFolder()) for folder in wanted
            }
            new = [each for each in entries.values() if not each.renew_at]
            for folder, entry in entries.items():
                if entry.running is None and entry.renew_at <= time.monotonic():
                    entry.running = self._pool.submit(self._renew, folder, entry)
        wait([each.running for each in new if each.running is not None], at_most_seconds)
        return {folder: entry.value for folder, entry in entries.items()}

    def _renew(self, folder: str, entry: _CachedFolder) -> None:
        began = time.monotonic()
        try:
            entry.value = read_uncommitted(Path(folder))
        finally:
            now = time.monotonic()
            with self._lock:
                entry.renew_at = now + max(FRESH_SECONDS, REST * (now - began))
                entry.running = None


uncommitted = UncommittedCache()
