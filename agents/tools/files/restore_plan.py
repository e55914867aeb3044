"""Which files a rewind restores, and to which of their stored versions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any


class FileResult(StrEnum):
    RESTORED = "restored"
    DELETED = "deleted"
    LEFT = "left"


class LeftReason(StrEnum):
    """Why a file stays as it is."""

    CHANGED = "changed"  # since the newest stored version
    CHANGED_BETWEEN = "changed_between"  # between two changes by tools
    OUTSIDE = "outside"  # of the workspace's folder
    MISSING_VERSION = "missing_version"
    UNREADABLE = "unreadable"  # not a text file now, or behind a link, or it cannot be written


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """A stored version of a file, without its content."""

    id: str
    path: str
    position: int
    is_found: bool  # before a change; the others were written by tools


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, what happens to it, and later what has happened to it."""

    path: str
    expected: str = ""  # the version that the file must have
    restored: str = ""  # the version that it gets
    result: str = ""  # empty: still to do
    reason: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)

    def undoing(self) -> FileEntry:
        """Returns what undoes this entry."""
        return FileEntry(self.path, expected=self.restored, restored=self.expected)


def entries_of(stored: Iterable[dict[str, Any]]) -> list[FileEntry]:
    return [FileEntry(**entry) for entry in stored]


def plan_files(
    versions: Sequence[VersionFacts],
    *,
    folder: str,
    after: int,
    is_same: Callable[[VersionFacts, VersionFacts], bool],
) -> list[FileEntry]:
    """Returns an entry for each file that a tool has written after the position, in path order.

    ``versions``: those of a session and its child sessions, in the order of their positions.
    ``is_same`` compares the contents of two versions.
    """
    by_path: dict[str, list[VersionFacts]] = {}
    for version in versions:
        by_path.setdefault(version.path, []).append(version)
    entries = [
        _entry(path, history, folder=folder, after=after, is_same=is_same)
        for path, history in sorted(by_path.items())
    ]
    return [entry for entry in entries if entry is not None]


def _entry(
    path: str,
    history: Sequence[VersionFacts],
    *,
    folder: str,
    after: int,
    is_same: Callable[[VersionFacts, VersionFacts], bool],
) -> FileEntry | None:
    first = next(
        (
            index
            for index, version in enumerate(history)
            if version.position > after and not version.is_found
        ),
        None,
    )
    if first is None:
        return None
    if first == 0:
        return _left(path, LeftReason.MISSING_VERSION)
    before, newest = history[first - 1], history[-1]
    if is_same(before, newest):
        return None
    if not PurePosixPath(path).is_relative_to(folder):
        return _left(path, LeftReason.OUTSIDE)
    for previous, version in zip(history[first:], history[first + 1 :], strict=False):
        if version.is_found and not is_same(previous, version):
            # Another program wrote the file between two changes: its change would be lost.
            return _left(path, LeftReason.CHANGED_BETWEEN)
    return FileEntry(path, expected=newest.id, restored=before.id)


def _left(path: str, reason: LeftReason) -> FileEntry:
    return FileEntry(path, result=FileResult.LEFT, reason=reason)
