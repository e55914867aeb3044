"""Finds the skills of a workspace: the server's own, its user's, its project's.

Blocking, so it is called in a thread. The contents of folders and files raise nothing.
It reads a limited number of files up to a size limit, and never blocks on a pipe or device.
A project's links must stay in the project; links of the user may lead anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.config.regular_file import Unreadable, read_regular_file
from agents.skills.skill import (
    FILE_NAME,
    Health,
    InvalidSkill,
    Skill,
    SkillLocation,
    SkillSource,
    SkillState,
    skill_of,
)

BUILTIN = str(Path(__file__).with_name("builtin"))
SKILLS_LIMIT = 200
FILE_LIMIT = 1 << 20
_ENTRIES_LIMIT = 5_000  # of all folders together
_DEPTH_LIMIT = 4
_HEAD_LIMIT = 64 << 10  # where the front matter must be
_PATH_LIMIT = 2_000  # characters, because every state is sent to every client
_SKIPPED = frozenset({"node_modules", "__pycache__"})

Mark = tuple[int, int, int, int]  # inode, size, and both times


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A SKILL.md that was found and is not read yet."""

    location: SkillLocation
    mark: Mark
    fault: str = ""


@dataclass(frozen=True, slots=True)
class FoundSkills:
    skills: tuple[Skill, ...] = ()  # the valid ones; of several with one name, the last found
    states: tuple[SkillState, ...] = ()
    seen: tuple[FoundFile, ...] = field(default=(), repr=False)  # equal while nothing has changed

    def enabled(self, disabled: frozenset[str]) -> tuple[Skill, ...]:
        return tuple(skill for skill in self.skills if skill.name not in disabled)


def find_skills(
    workspace: str, folders: Sequence[str], *, known: FoundSkills | None = None
) -> FoundSkills:
    """Finds the skills; reads files only if something has changed since ``known``."""
    seen = tuple(_Search(workspace).files_in(folders))
    if known is not None and known.seen == seen:
        return known
    skills: dict[str, Skill] = {}
    states: list[SkillState] = []
    for one in seen:
        try:
            skill = _read(one)
        except InvalidSkill as invalid:
            states.append(
                SkillState(one.location.name, one.location.id, Health.ERROR, str(invalid))
            )
            continue
        # A later folder wins: a project's skill replaces the server's skill of the same name.
        skills.pop(skill.name, None)
        skills[skill.name] = skill
        states.append(SkillState(skill.name, one.location.id, Health.NORMAL))
    return FoundSkills(tuple(skills.values()), tuple(states), seen)


def read_skill(skill: Skill) -> bytes:
    """Returns the whole file. Raises ``InvalidSkill``."""
    try:
        content = read_regular_file(skill.location.file, limit=FILE_LIMIT)
    except Unreadable as unreadable:
        raise InvalidSkill(unreadable.reason) from None
    return content.data


def _read(seen: FoundFile) -> Skill:
    if seen.fault:
        raise InvalidSkill(seen.fault)
    try:
        head = read_regular_file(seen.location.file, limit=_HEAD_LIMIT).data
    except Unreadable as unreadable:
        raise InvalidSkill(unreadable.reason) from None
    if b"\0" in head:
        raise InvalidSkill("it is not a text file")
    try:
        # The read may end within a character.
        text = head.decode("utf-8", "strict" if len(head) < _HEAD_LIMIT else "ignore")
    except UnicodeDecodeError:
        raise InvalidSkill("it is not UTF-8 text") from None
    return skill_of(text, seen.location)


class _Search:
    def __init__(self, workspace: str) -> None:
        self._workspace = os.path.normpath(workspace)
        self._inside = _real(workspace)
        self._entries = _ENTRIES_LIMIT
        self._visited: set[str] = set()

    def files_in(self, folders: Sequence[str]) -> Iterator[FoundFile]:
        left = SKILLS_LIMIT
        for folder, source in self._sources(folders):
            for seen in self._walk(folder, source, _DEPTH_LIMIT):
                if left <= 0:
                    return
                left -= 1
                yield seen

    def _sources(self, folders: Sequence[str]) -> Iterator[tuple[str, SkillSource]]:
        yield BUILTIN, SkillSource.SYSTEM
        for folder in folders:
            if not folder.startswith("/"):
                continue
            # Both its name and the target of its links count: a folder in the project is never
            # treated as the user's.
            is_project = _is_within(folder, self._workspace) or _is_within(
                _real(folder), self._inside
            )
            yield folder, SkillSource.PROJECT if is_project else SkillSource.USER

    def _walk(self, folder: str, source: SkillSource, depth: int) -> Iterator[FoundFile]:
        """Yields the folder's own SKILL.md, else those below it."""
        real = _real(folder)
        if not real or real in self._visited:
            return  # a link to a folder that was searched already, or a cycle
        self._visited.add(real)
        path = f"{folder.rstrip('/')}/{FILE_NAME}"
        mark = _mark(path)
        if mark is not None:
            yield self._found_file(path, real, source, mark)
        elif depth > 0 and (source is not SkillSource.PROJECT or _is_within(real, self._inside)):
            for name in self._folders(folder):
                yield from self._walk(f"{folder.rstrip('/')}/{name}", source, depth - 1)

    def _found_file(self, path: str, folder: str, source: SkillSource, mark: Mark) -> FoundFile:
        file = _real(path)
        location = SkillLocation(path, folder, file, source)
        if source is SkillSource.PROJECT and not (
            _is_within(folder, self._inside) and _is_within(file, self._inside)
        ):
            return FoundFile(location, mark, "a link leads out of the workspace")
        return FoundFile(location, mark)

    def _folders(self, folder: str) -> list[str]:
        names: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._entries -= 1
                    if self._entries < 0:
                        break
                    if _is_walkable(entry.name) and entry.is_dir():
                        names.append(entry.name)
        except (OSError, ValueError):
            return []  # it does not exist, or is not readable
        return sorted(names)


def _is_walkable(name: str) -> bool:
    return not name.startswith(".") and name not in _SKIPPED


def _mark(path: str) -> Mark | None:
    try:
        status = Path(path).stat()
        path.encode()
    except (OSError, ValueError):
        return None  # also for a name that cannot be encoded for clients
    if len(path) > _PATH_LIMIT:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return ""


def _is_within(path: str, folder: str) -> bool:
    return bool(folder) and (path == folder or path.startswith(folder.rstrip("/") + "/"))
