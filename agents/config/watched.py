"""Where changes of configuration files show: which folders to watch, which paths to heed.

A file may not exist yet, nor its folder; it may be a link to a file elsewhere. Blocks
on the disk, raises nothing for what it finds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath


@dataclass(frozen=True, slots=True)
class Watched:
    folders: frozenset[str]  # they exist
    # A changed path, and whose files it may concern.
    files: Mapping[str, frozenset[str]]
    # When one of these comes or goes, other folders are to be watched.
    turning_points: frozenset[str]


def watched(files_of: Mapping[str, Iterable[str]]) -> Watched:
    """``files_of``: by workspace, the files that may make its configuration."""
    owners: dict[str, set[str]] = {}
    for workspace_id, files in files_of.items():
        for file in files:
            owners.setdefault(file, set()).add(workspace_id)
    for file, ids in list(owners.items()):
        real = _real(file)
        if real != file:
            owners.setdefault(real, set()).update(ids)
    folders: set[str] = set()
    turning_points: set[str] = set()
    for file in owners:
        folder = os.path.dirname(file)  # noqa: PTH120  "" above a bare name
        turning_points.add(folder)
        while not os.path.isdir(folder) and folder not in {"", "/"}:  # noqa: PTH112  pathlib's raises where it may not look
            folder = os.path.dirname(folder)  # noqa: PTH120  the same
            turning_points.add(folder)
        if folder:
            folders.add(folder)
    files = {file: frozenset(ids) for file, ids in owners.items()}
    return Watched(frozenset(folders), files, frozenset(turning_points) - {"/"})


def _real(file: str) -> str:
    """Editors of a linked file write the file that the link names."""
    try:
        if Path(file).is_symlink():
            return os.path.realpath(file)
    except (OSError, ValueError):
        pass
    return str(PurePath(file))
