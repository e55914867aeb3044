"""Parses and validates skills, and lists the files of one. Pure.

A skill is a folder with a SKILL.md: front matter that describes it, and instructions. An invalid
one only has a state with an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.skills.front_matter import Value

FILE_NAME = "SKILL.md"
NAME_LIMIT = 64
DESCRIPTION_LIMIT = 1_024
COMPATIBILITY_LIMIT = 500
FRONT_MATTER_LINES = 500
FRONT_MATTER_CHARS = 16 << 10  # parsing takes at most 0.2 s
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SHOWN = 80  # characters of a file that an error repeats


class SkillSource(StrEnum):
    SYSTEM = "system"  # comes with this server
    USER = "user"
    PROJECT = "project"


class Health(IntEnum):
    NORMAL = 0
    ERROR = 1


@dataclass(frozen=True, slots=True)
class SkillLocation:
    """Where a SKILL.md is."""

    path: str  # of the file, as it was found
    folder: str  # its folder, links followed
    file: str  # the file, links followed
    source: SkillSource

    @property
    def name(self) -> str:
        """Returns the folder's name, which must be the skill's name too."""
        return self.path.rsplit("/", 2)[-2]

    @property
    def id(self) -> str:
        """Returns the id for clients, which does not reveal where this server is installed."""
        if self.source is SkillSource.SYSTEM:
            return f"crush://skills/{self.name}/{FILE_NAME}"
        return self.path


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    description: str
    location: SkillLocation
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    user_invocable: bool = False  # clients offer it as a command
    model_invocable: bool = True  # the system prompt lists it

    @property
    def id(self) -> str:
        return self.location.id

    @property
    def label(self) -> str:
        return f"{self.location.source}:{self.name}"

    @property
    def is_builtin(self) -> bool:
        return self.location.source is SkillSource.SYSTEM


@dataclass(frozen=True, slots=True)
class SkillState:
    """Whether one SKILL.md is valid, and why not."""

    name: str
    path: str  # its id
    health: Health
    error: str = ""


class InvalidSkill(Exception):
    """The skill is invalid; the message gives the reason."""


def skill_of(text: str, location: SkillLocation) -> Skill:
    """Returns the skill in the text of a SKILL.md. Raises ``InvalidSkill``."""
    # Imported here, because a server's start must not wait 12 ms for PyYAML.
    from agents.skills.front_matter import BrokenFrontMatter, read_entries, split  # noqa: PLC0415

    try:
        lines, _ = split(text)
        if len(lines) > FRONT_MATTER_LINES:
            raise InvalidSkill(f"the front matter has more than {FRONT_MATTER_LINES} lines")
        if sum(map(len, lines)) > FRONT_MATTER_CHARS:
            raise InvalidSkill(f"the front matter has more than {FRONT_MATTER_CHARS} characters")
        entries = read_entries(lines)
    except BrokenFrontMatter as broken:
        raise InvalidSkill(str(broken)) from None
    metadata = entries.get("metadata")
    return Skill(
        name=_name(entries, location),
        description=_text(entries, "description", limit=DESCRIPTION_LIMIT, needed=True),
        location=location,
        license=_text(entries, "license", limit=COMPATIBILITY_LIMIT),
        compatibility=_text(entries, "compatibility", limit=COMPATIBILITY_LIMIT),
        metadata=metadata if isinstance(metadata, Mapping) else {},
        user_invocable=_flag(entries, "user-invocable"),
        model_invocable=not _flag(entries, "disable-model-invocation"),
    )


def _name(entries: Mapping[str, Value], location: SkillLocation) -> str:
    name = _text(entries, "name", limit=NAME_LIMIT, needed=True)
    if _NAME.fullmatch(name) is None:
        raise InvalidSkill("name: must be lower-case letters, digits and single hyphens")
    if name != location.name:
        raise InvalidSkill(
            f"name: '{name}' differs from the folder's name '{location.name[:_SHOWN]}'"
        )
    return name


def _text(entries: Mapping[str, Value], key: str, *, limit: int, needed: bool = False) -> str:
    value = entries.get(key, "")
    if not isinstance(value, str):
        raise InvalidSkill(f"{key}: must be a string")
    text = value.strip()
    if needed and not text:
        raise InvalidSkill(f"{key} is missing")
    if len(text) > limit:
        raise InvalidSkill(f"{key}: must have at most {limit} characters")
    return text


def _flag(entries: Mapping[str, Value], key: str) -> bool:
    """Returns a boolean entry, whose key may have hyphens or underscores."""
    value = entries.get(key, entries.get(key.replace("-", "_"), "false"))
    if not isinstance(value, str) or value.lower() not in {"true", "false", "yes", "no"}:
        raise InvalidSkill(f"{key}: must be true or false")
    return value.lower() in {"true", "yes"}


def skill_of_file(path: Path, skills: Sequence[Skill]) -> Skill | None:
    """Returns the skill whose folder contains this file, which needs no permission to be read.

    ``path`` is resolved: a link that leads out of a skill's folder is not a file of the skill.
    """
    for skill in skills:
        if str(path) == skill.location.file or Path(skill.location.folder) in path.parents:
            return skill
    return None


def is_skill_file(path: Path, skills: Sequence[Skill]) -> bool:
    return skill_of_file(path, skills) is not None
