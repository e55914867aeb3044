"""Reads files as they are in the newest commit of a git repository. Blocks: call it in a thread.

A repository's own settings can name programs. Of git's commands only those are used that show an
object as it is stored, without filters, text conversion, hooks or a fetch of missing objects.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from agents.tools.limits import MAX_TEXT_BYTES

SECONDS = 10.0
# For every git command that only reads: no locks, no prompts, no fetches.
READING_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # Git before 2.44 ignores the first; the second stops its fetch before a program starts.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_VARIABLES = READING_VARIABLES | {"GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
_KEPT = ("PATH", "HOME")


class NoCommit(Exception):
    """The folder is in no git repository that has a commit and belongs to this user."""


def committed_files(folder: Path, paths: Iterable[str]) -> Mapping[str, bytes | None]:
    """Returns the content of each path in the newest commit; ``None`` where it has no such file.

    Leaves out paths outside of the repository, and files that are too large to compare. Raises
    ``NoCommit``.
    """
    top = read_git(folder, ["rev-parse", "--show-toplevel"]).decode("utf-8", "surrogateescape")
    root = Path(top.rstrip("\n"))
    read_git(folder, ["rev-parse", "--verify", "HEAD^{commit}"])
    names = {path: _object(root, path) for path in paths}
    inside = {path: name for path, name in names.items() if name is not None}
    sizes = _sizes(root, list(inside.values()))
    found: dict[str, bytes | None] = {}
    for path, name in inside.items():
        size = sizes.get(name)
        if size is None:
            found[path] = None
        elif size <= MAX_TEXT_BYTES:
            found[path] = read_git(root, ["cat-file", "blob", name])
    return found


def _object(root: Path, path: str) -> str | None:
    """Returns git's name of a file in the newest commit; ``None`` outside of the repository."""
    try:
        relative = Path(path).relative_to(root)
    except ValueError:
        return None
    name = f"HEAD:{relative.as_posix()}"
    return None if "\n" in name else name  # git separates its names by lines


def _sizes(root: Path, names: Sequence[str]) -> dict[str, int]:
    """Returns the sizes of those names that are files."""
    if not names:
        return {}
    given = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
    check = ["cat-file", "--batch-check=%(objecttype) %(objectsize)"]
    lines = read_git(root, check, given=given).split(b"\n")
    found = {}
    for name, line in zip(names, lines, strict=False):
        kind, _, size = line.rpartition(b" ")
        if kind == b"blob" and size.isdigit():
            found[name] = int(size)
    return found


def read_git(
    folder: Path,
    arguments: Sequence[str],
    *,
    given: bytes = b"",
    variables: Mapping[str, str] = MappingProxyType({}),
    seconds: float = SECONDS,
) -> bytes:
    """Runs a command of git that runs no other program. Raises ``NoCommit``."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment = {**kept, **_VARIABLES, **variables}
    command = ["git", "--no-replace-objects", "--literal-pathspecs", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, input=given, env=environment, capture_output=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        raise NoCommit from None
    if done.returncode != 0:
        raise NoCommit
    return done.stdout
