"""Where ripgrep is, and the options that both searches share."""

from __future__ import annotations

import shutil
import sysconfig
from functools import cache
from pathlib import Path


@cache
def binary() -> str | None:
    """The wheel's binary lies beside this interpreter, else one on the path; ``None``: there is none."""
    own = Path(sysconfig.get_path("scripts")) / "rg"
    return str(own) if own.is_file() else shutil.which("rg")


def options(root: Path, *, hidden: bool) -> list[str]:
    """No configuration of the user's, no links followed, rules of ``.gitignore`` kept."""
    shared = ["--no-config", "--no-messages", "--no-follow", "--null", "--color=never"]
    if hidden:
        shared += ["--hidden", "--glob=!.git"]
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        # Outside of a repository the folders above have no say: a home may ignore everything.
        shared += ["--no-require-git", "--no-ignore-parent"]
    return shared
