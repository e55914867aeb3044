"""Finds the skills of a workspace: the server's own, its user's, its project's.

Blocking, so it is called in a thread. Raises nothing for what folders and files
hold, reads a bounded number of bounded files, and never waits for one that is no file.
A project's links must stay in the project; its user's may lead wherever they put them.
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
_PATH_LIMIT = 2_000  # characters: every state goes to every client
_SKIPPED = frozenset({"node_modules", "__pycache__"})

Mark = tuple[int, int, int, int]  # inode, size, and both times


@dataclass(frozen=True, slots=True)
class Seen:
    """A SKILL.md that was found, not read yet."""

    location: SkillLocation
    mark: Mark
    fault: str = ""


@dataclass(frozen=True, slots=True)
class FoundSkills:
    skills: tuple[Skill, ...] = ()  # valid ones; of one name the last found
    states: tuple[SkillState, ...] = ()
    seen: tuple[Seen, ...] = field(default=(), repr=False)  # equal as long as nothing has changed

    def enabled(self, disabled: frozenset[str]) -> tuple[Skill, ...]:
        return tuple(skill for skill in self.skills if skill.name not in disabled)


def find_skills(
    workspace: str, folders: Sequence[str], *, known: FoundSkills | None = None
) -> FoundSkills:
    """Reads files only when anything has changed since ``known``."""
    seen = tuple(_Search(workspace).through(folders))
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
        # The nearest one wins: a project's skill replaces ours of the same name.
        skills.pop(skill.name, None)
        skills[skill.name] = skill
        states.append(SkillState(skill.name, one.location.id, Health.NORMAL))
    return FoundSkills(tuple(skills.values()), tuple(states), seen)


def read_skill(skill: Skill) -> bytes:
    """The whole file. Raises ``InvalidSkill``."""
    try:
        content = read_regular_file(skill.location.file, limit=FILE_LIMIT)
    except Unreadable as unreadable:
        raise InvalidSkill(unreadable.reason) from None
    return content.data


def _read(seen: Seen) -> Skill:
    if seen.fault:
        raise InvalidSkill(seen.fault)
    try:
        head = read_regular_file(seen.location.file, limit=_HEAD_LIMIT).data
    except Unreadable as unreadable:
        raise InvalidSkill(unreadable.reason) from None
    if b"\0" in head:
        raise InvalidSkill("it is not a text file")
    try:
        # The cut may go through a character.
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

    def through(self, folders: Sequence[str]) -> Iterator[Seen]:
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
            # By its name or by where it leads: neither way makes a project's folder its user's.
            is_project = _is_within(folder, self._workspace) or _is_within(
                _real(folder), self._inside
            )
            yield folder, SkillSource.PROJECT if is_project else SkillSource.USER

    def _walk(self, folder: str, source: SkillSource, depth: int) -> Iterator[Seen]:
        """The folder's own SKILL.md, else those below it."""
        real = _real(folder)
        if not real or real in self._visited:
            return  # a link to what was looked through already, or round in a circle
        self._visited.add(real)
        path = f"{folder.rstrip('/')}/{FILE_NAME}"
        mark = _mark(path)
        if mark is not None:
            yield self._seen(path, real, source, mark)
        elif depth > 0 and (source is not SkillSource.PROJECT or _is_within(real, self._inside)):
            for name in self._folders(folder):
                yield from self._walk(f"{folder.rstrip('/')}/{name}", source, depth - 1)

    def _seen(self, path: str, folder: str, source: SkillSource, mark: Mark) -> Seen:
        file = _real(path)
        location = SkillLocation(path, folder, file, source)
        if source is SkillSource.PROJECT and not (
            _is_within(folder, self._inside) and _is_within(file, self._inside)
        ):
            return Seen(location, mark, "a link leads out of the workspace")
        return Seen(location, mark)

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
            return []  # it is not there, or not ours to read
        return sorted(names)


def _is_walkable(name: str) -> bool:
    return not name.startswith(".") and name not in _SKIPPED


def _mark(path: str) -> Mark | None:
    try:
        status = Path(path).stat()
        path.encode()
    except (OSError, ValueError):
        return None  # also a name that no answer could hold
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
