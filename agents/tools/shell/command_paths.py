"""Whether what a command reads lies in the workspace, links followed, as ``view`` judges it.

Touches the disk (names and links only): call it in a thread.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

from agents.config.mask import is_secret_name
from agents.skills.skill import is_skill_file
from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.files.paths import is_inside, resolve
from permissions.policy.reading import Reads

_MAX_NAMES = 5_000
_MARKS = "*?[{"
_MAX_FOLDERS = 64
_MAX_PATHS = 2_000
# They sound like secrets and are none.
_HARMLESS = {"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"}


class _Outside(Exception):
    pass


def reads_inside(reads: Reads, context: ToolContext) -> bool:
    """Not true either where it cannot be told."""
    if reads.folders and "CDPATH" in context.env:
        return False
    try:
        bases = _bases(reads.folders, context)
        if len(bases) * (len(reads.paths) + len(reads.patterns)) > _MAX_PATHS:
            return False
        for base, path in product(bases, reads.paths):
            _inside(base / path, context)
        budget = [_MAX_NAMES]
        for base, pattern in product(bases, reads.patterns):
            _check_matches(base, pattern, context, budget)
    except (_Outside, ToolRefusal, OSError, ValueError):
        return False
    return True


def shows_secrets(reads: Reads, context: ToolContext) -> bool:
    """Whether a variable that it prints, or may print, holds a secret."""
    shown = context.env if reads.shows_environment else reads.variables & context.env.keys()
    return any(context.env[name] and _is_secret(name, context.env[name]) for name in shown)


def _is_secret(name: str, value: str) -> bool:
    if name in _HARMLESS:
        return False
    head, at, _ = value.partition("@")
    return is_secret_name(name) or bool(at and "://" in head and ":" in head.partition("://")[2])


def _bases(folders: list[str], context: ToolContext) -> set[Path]:
    """Every folder that the command may be in: ``cd`` may come in any order."""
    bases = {context.working_dir}
    for _ in folders:
        bases |= {_inside(base / folder, context) for base in bases for folder in folders}
        if len(bases) > _MAX_FOLDERS:
            raise _Outside
    return bases


def _inside(path: Path, context: ToolContext) -> Path:
    resolved = resolve(str(path), context)
    if is_inside(resolved, context.working_dir) or is_skill_file(resolved, context.skills):
        return resolved
    raise _Outside


def _check_matches(base: Path, pattern: str, context: ToolContext, budget: list[int]) -> None:
    """Whatever the shell may put in the place of a pattern must lie inside, and the way to it."""
    if pattern.startswith("/"):
        # Up to its first mark it is a path like others.
        fixed = pattern[: min(pattern.find(mark) for mark in _MARKS if mark in pattern)]
        base, pattern = Path(fixed.rpartition("/")[0] or "/"), pattern[fixed.rfind("/") + 1 :]
    reached = [_inside(base, context)]
    for part in filter(None, pattern.split("/")):
        following: list[Path] = []
        for folder in reached:
            budget[0] -= 1
            if not any(mark in part for mark in _MARKS):
                following.append(_inside(folder / part, context))
            elif folder.is_dir():
                following += [_inside(path, context) for path in _named(folder, part, budget)]
            if budget[0] < 0:
                raise _Outside
        reached = following


def _named(folder: Path, part: str, budget: list[int]) -> list[Path]:
    """Brackets and braces count as anything: shells differ in them."""
    part = "*" if any(mark in part for mark in "[{\\") else part
    found: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            budget[0] -= 1
            if budget[0] < 0:
                raise _Outside
            if fnmatchcase(entry.name, part):
                found.append(folder / entry.name)
    return found
