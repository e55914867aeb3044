"""The files of a configuration, a person's own or the folder's; checks paths against folders."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import PurePath

from agents.config.parse import Tree


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """One file that takes part in a configuration."""

    file: str
    tree: Tree = field(repr=False)
    is_folders: bool  # it came with the folder; otherwise a person of this machine wrote it
    # A program that makes trees when it is run: its digest and how long it is, instead of a tree.
    program: str = ""
    text: str = field(default="", repr=False)
    # Made by a program that a person has let run: what it configures was let in with it.
    is_let_in: bool = False


def is_within(file: str, folder: str) -> bool:
    """Whether the file is in the folder, by its path or after its links are resolved."""
    try:
        pairs = ((file, folder), (os.path.realpath(file), os.path.realpath(folder)))
    except (OSError, ValueError):
        pairs = ((file, folder), (file, folder))
    return any(_lies_in(one, other) for one, other in pairs)


def _lies_in(file: str, folder: str) -> bool:
    return file == folder or file.startswith(f"{folder.rstrip('/')}/")


def is_outside(named: str, path: str) -> bool:
    """Whether a folder that a project's file names is outside the workspace."""
    if not named:
        return False
    if named.startswith("~") or "\0" in named:
        return True
    file = os.path.normpath(PurePath(path, named))
    try:
        leads_out = not _lies_in(os.path.realpath(file), os.path.realpath(path))
    except (OSError, ValueError):
        leads_out = False  # no such folder
    return leads_out or not is_within(file, path)
