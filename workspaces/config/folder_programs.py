"""Programs that lie in the folder whose configuration starts them, by digest.

A trusted command may name a script of the folder. Who trusted it has trusted the script as
it was: a changed one is another program. Blocks on the disk, raises nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from workspaces.config.find import work_tree_of
from workspaces.config.folder_powers import is_within
from workspaces.config.regular_file import Unreadable, read_regular_file

FILES_LIMIT = 64
NAMES_LIMIT = 5_000
SIZE_LIMIT = 4 << 20
_SOURCED = re.compile(
    r"(?:^|[;&|({\s])(?:source|\.)[ \t]+(?:\"([^\"\n]+)\"|'([^'\n]+)'|([^\s;&|()<>\"']+))",
    re.MULTILINE,
)
_SOURCED_LIMIT = 64 << 10  # longer ones are no scripts that somebody wrote
# ``$PWD/x``, ``${BASH_SOURCE%/*}/x``, and what a split at ``$(dirname "$0")/x`` leaves.
_BEHIND_VARIABLE = re.compile(r"\$(?:\w+|\{[^}]*\})/|/")


@dataclass(frozen=True, slots=True)
class NamedFiles:
    digests: Mapping[str, str] = field(default_factory=dict)  # by file
    is_complete: bool = True  # else there are more files than anyone would look through


def folder_programs(words: Iterable[tuple[str, str]], path: str) -> NamedFiles:
    """The files of the work tree that words of commands name, and what these source.

    Each word comes with the folder that it may be relative to, beside the workspace.
    """
    root = work_tree_of(path)
    waiting = deque(dict.fromkeys(words))
    seen = set(waiting)
    found: dict[str, str] = {}
    while waiting and len(found) <= FILES_LIMIT and len(seen) <= NAMES_LIMIT:
        word, base = waiting.popleft()
        for file in _candidates(word, dict.fromkeys((path, base or path))):
            # Almost no word names a file; links are followed for those that do.
            if file in found or not os.path.isfile(file) or not is_within(file, root):  # noqa: PTH113  pathlib's raises where it may not look
                continue
            digest, text = _read(file)
            if not digest:
                continue
            found[file] = digest
            more = [(name, os.path.dirname(file)) for name in _sourced(text)]  # noqa: PTH120  as written
            waiting += [each for each in more if each not in seen]
            seen.update(more)
    if waiting:
        return NamedFiles(dict(list(found.items())[:FILES_LIMIT]), is_complete=False)
    return NamedFiles(found)


def _candidates(word: str, bases: Iterable[str]) -> Iterator[str]:
    if not word or len(word) > 4_096 or "\0" in word:
        return
    # ``--config=tools/x.py`` and ``BASH_ENV=tools/x`` name a file too.
    names = dict.fromkeys((word, word.rpartition("=")[2]))
    for name in list(names):
        if behind := _BEHIND_VARIABLE.match(name):
            names[name[behind.end() :]] = None
    for base in bases:
        for name in filter(None, names):
            file = os.path.normpath(PurePath(base, name))
            if file != base:
                yield file


def _sourced(text: str) -> Iterator[str]:
    for match in _SOURCED.finditer(text):
        yield next(filter(None, match.groups()))


def _read(file: str) -> tuple[str, str]:
    """Its digest, and its text where it may be a script."""
    try:
        content = read_regular_file(file, limit=SIZE_LIMIT)
        digest = hashlib.sha256(content.data).hexdigest()
        if content.truncated:
            # The rest counts by what nobody can set: a write changes both.
            status = Path(file).stat()
            digest += f"+{status.st_size}:{status.st_ctime_ns}"
    except (Unreadable, OSError, ValueError):
        return "", ""
    is_script = len(content.data) <= _SOURCED_LIMIT and b"\0" not in content.data
    return digest, content.data.decode("utf-8", "replace") if is_script else ""
