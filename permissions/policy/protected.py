"""Files that programs run or obey later: writing one always needs permission.

Pure: paths are compared as text, without case and invisible characters, because some file systems
treat such names as equal.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

_CONFIGURATION = "crush.json .crush.json crushrc .crushrc"
# Programs run these when a person enters a folder.
_ON_ENTERING = (
    ".envrc .direnvrc direnvrc mise.toml .mise.toml mise.local.toml .mise.local.toml "
    ".miserc.toml .tool-versions"
)
# Shells and desktop sessions run these when they start.
_AT_START = (
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv "
    ".zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc "
    ".xprofile .xsession .xsessionrc .xinitrc .pam_environment"
)
_NAMES = frozenset(f"{_CONFIGURATION} {_ON_ENTERING} {_AT_START} .gitconfig".split())
# Folders of these names, with everything below them.
_FOLDERS = frozenset(
    [
        ".git",
        ".crush",
        ".bashrc.d",
        ".zshrc.d",
        ".profile.d",
        ".husky",
        ".githooks",
        ".direnv",
        ".mise",
        ".ssh",
    ]
)
_PAIRS = frozenset(
    [(tool, "skills") for tool in (".agents", ".crush", ".claude", ".cursor")]
    + [
        (".config", tool)
        for tool in [
            "crush",
            "fish",
            "direnv",
            "mise",
            "git",
            "systemd",
            "autostart",
            "environment.d",
        ]
    ]
    + [("library", "launchagents"), (".mise", "config.toml")]
)


def is_protected(path: str, *, workspace: str = "/", more: Collection[str] = ()) -> bool:
    """Whether a file is protected. All paths are absolute.

    ``more``: further protected files and folders. For files in the workspace, the only folder
    above the workspace that counts is ``.git``: a workspace may be in ``~/.mise``.
    """
    whole, home = _parts(path), _parts(workspace)
    if any(whole[: len(place)] == place for place in map(_parts, more) if len(place) > 1):
        return True
    parts = whole[len(home) - 1 :] if whole[: len(home)] == home else whole
    return (
        ".git" in whole
        or not _NAMES.isdisjoint(parts[-1:])
        or not _FOLDERS.isdisjoint(parts)
        or not _PAIRS.isdisjoint(itertools.pairwise(whole[-len(parts) - 1 :]))
    )


def covers_folder(folder: str, path: str) -> bool:
    """Whether ``path`` lies in ``folder``. Both are absolute and have no ``..``."""
    inner, outer = PurePosixPath(path), PurePosixPath(folder)
    return outer in inner.parents


def _parts(path: str) -> Sequence[str]:
    return tuple(_plain(part) for part in PurePosixPath(path).parts)


def _plain(name: str) -> str:
    if name.isascii():
        return name.lower()
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())
