"""Where ripgrep is, and the options that both searches share."""

from __future__ import annotations

import shutil
import sysconfig
from functools import cache
from pathlib import Path

# First: is this still the folder that was judged, or has it been swapped for a link to another?
# Then: a line without an end would be held whole, so ripgrep gives up beyond 4 GiB. Asking it to
# skip large files instead costs a look at each file, a sixth of a search's time.
_GUARDED = """\
cd -P . && [ "$PWD" = "$1" ] || exit 126
shift
ulimit -v 4194304 2>/dev/null
exec "$0" "$@"
"""


def command(binary: str, root: Path) -> list[str]:
    """What to run in ``root``, a resolved folder; its arguments follow."""
    return ["/bin/sh", "-c", _GUARDED, binary, str(root)]


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
