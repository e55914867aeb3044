"""Lists the files to search where ripgrep is missing, by ripgrep's rules.

Honours ``.gitignore`` files, leaves out hidden names and never follows links.
Blocks: call it in a thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

_MAX_IGNORE_BYTES = 1024 * 1024


def files(root: Path, *, hidden: bool, seconds: float) -> Iterator[str]:
    """Paths relative to the root, until the time is over."""
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
    """The rules of the folders above, up to the repository's own, nearest last."""
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
    return ()  # not a repository: rules above do not count


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
    except ValueError:  # a broken file hides nothing
        return None
