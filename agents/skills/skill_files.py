"""Which files belong to skills: they may be read unasked, wherever they lie. Pure.

Takes resolved paths: a link in a skill's folder that leads elsewhere is no file of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agents.skills.skill import Skill


def skill_of_file(path: Path, skills: Sequence[Skill]) -> Skill | None:
    """The skill whose SKILL.md, or a file beside it, this is."""
    for skill in skills:
        if str(path) == skill.place.file or Path(skill.place.folder) in path.parents:
            return skill
    return None


def is_skill_file(path: Path, skills: Sequence[Skill]) -> bool:
    return skill_of_file(path, skills) is not None
