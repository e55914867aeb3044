"""Which of a workspace's files always need a person's permission to be written.

Beside the names that the policy knows, these are a workspace's own: the programs of its hooks,
its skills, git's folder and hooks where they lie elsewhere. Touches the disk: call it in a thread.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from agents.tools.contract import ToolContext
from permissions.policy.protected import is_protected

_MAX_GIT_FILE = 256 << 10
_HOOKS_PATH = re.compile(r"^[ \t]*hookspath[ \t]*=[ \t]*(.+)$", re.IGNORECASE | re.MULTILINE)
_GIT_FOLDER = re.compile(r"gitdir:[ \t]*(.+)")
_PIECES = re.compile(r"[\s;&|()'\"=]+")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def always_asks(path: Path, named: str, context: ToolContext) -> bool:
    """``path`` is where links lead, ``named`` what the model wrote: either may be protected."""
    written = os.path.normpath(context.working_dir / named)
    more = [*context.skill_folders, *_hook_programs(context), *_of_git(context.working_dir)]
    more += [os.path.realpath(place) for place in more]
    if context.data_dir:
        more.append(os.path.realpath(context.data_dir))
    workspace = str(context.working_dir)
    return any(
        is_protected(place, workspace=workspace, more=more) for place in (str(path), written)
    )


def _hook_programs(context: ToolContext) -> Iterator[str]:
    """Files that commands of hooks name: the program, and what an interpreter is given."""
    for command in context.hook_commands:
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        # `sh -c "./check.sh --all"` has words within a word.
        inner = [piece for word in words for piece in _PIECES.split(word)]
        for word in filter(None, [*words, *inner]):
            place = os.path.join(context.working_dir, _expanded(word, context))  # noqa: PTH118  keeps absolute words
            if "\0" not in place and os.path.isfile(place):  # noqa: PTH113  raises nothing
                yield os.path.normpath(place)


def _expanded(word: str, context: ToolContext) -> str:
    here = str(context.working_dir)
    known = {**context.env, **dict.fromkeys(("CRUSH_PROJECT_DIR", "CRUSH_CWD", "PWD"), here)}
    if word.startswith("~/"):
        word = "$HOME" + word[1:]
    return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], ""), word)


def _of_git(folder: Path) -> Iterator[str]:
    """Git's folder where a file names it, and the hooks where the configuration does."""
    root = next((at for at in (folder, *folder.parents) if os.path.lexists(at / ".git")), None)
    if root is None:
        return
    git = root / ".git"
    if match := _GIT_FOLDER.match(_text(git)):
        git = root / match[1].strip()
        yield str(git)
    for config in (git / "config", git / "config.worktree"):
        for value in _HOOKS_PATH.findall(_text(config)):
            yield os.path.normpath(root / os.path.expanduser(value.strip().strip('"')))  # noqa: PTH111  keeps text


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_MAX_GIT_FILE).decode("utf-8", "replace")
    except OSError:
        return ""
