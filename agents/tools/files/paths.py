"""Resolves a requested path, and decides whether it is inside the workspace.

Every check follows symbolic links first, so a link in the workspace that leads out of
it counts as outside. The functions access the disk (``lstat`` only): call them in a
thread.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import MAX_NAME_BYTES, MAX_PATH_BYTES
from permissions.policy.protected import is_protected

# Not files on a disk: a read can block for ever, or expose the server's own environment.
_KERNEL_ROOTS = (Path("/proc"), Path("/sys"), Path("/dev"))
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  a file system like any other


def resolve(requested: str, context: ToolContext) -> Path:
    """Returns the absolute, normalized path, with existing links followed.

    Raises ``ToolRefusal``.
    """
    if "\0" in requested:
        raise ToolRefusal("A path must not contain a NUL character.")
    if requested == "~" or requested.startswith("~/"):
        home = context.env.get("HOME", "")
        if home.startswith("/"):
            requested = home + requested[1:]
    joined = os.path.join(context.working_dir, requested)  # noqa: PTH118  keeps "" and absolute apart
    try:
        raw = os.fsencode(joined)
    except UnicodeEncodeError:
        raise ToolRefusal("The path contains characters that are not valid Unicode.") from None
    if len(raw) > MAX_PATH_BYTES or any(len(n) > MAX_NAME_BYTES for n in raw.split(b"/")):
        raise ToolRefusal(
            f"The path is too long: {MAX_PATH_BYTES:,} bytes, and {MAX_NAME_BYTES} for each name, are allowed."
        )
    resolved = os.path.realpath(joined)
    try:
        resolved.encode()
    except UnicodeEncodeError:
        # A link may lead to such a name, which can be neither stored nor shown.
        raise ToolRefusal(
            "The path resolves to a name that is not UTF-8. Use bash for this file."
        ) from None
    return Path(resolved)


def is_inside(path: Path, folder: Path) -> bool:
    """Returns whether a resolved path is in a resolved folder, or is the folder itself."""
    return path == folder or folder in path.parents


def is_kernel_path(path: Path) -> bool:
    if is_inside(path, _SHARED_MEMORY):
        return False
    return any(is_inside(path, root) for root in _KERNEL_ROOTS)


def shown(path: Path, context: ToolContext) -> str:
    """Returns the path for the model: relative inside the workspace, else absolute."""
    if is_inside(path, context.working_dir):
        return str(path.relative_to(context.working_dir))
    return str(path)


_MAX_GIT_FILE = 256 << 10
_HOOKS_PATH = re.compile(r"^[ \t]*hookspath[ \t]*=[ \t]*(.+)$", re.IGNORECASE | re.MULTILINE)
_GIT_FOLDER = re.compile(r"gitdir:[ \t]*(.+)")
_PIECES = re.compile(r"[\s;&|()'\"=]+")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def is_protected_path(path: Path, named: str, context: ToolContext) -> bool:
    """Returns whether the resolved ``path``, or ``named`` as the model wrote it, is protected."""
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
    """Yields the files in commands of hooks: the program, and the scripts of interpreters."""
    for command in context.hook_commands:
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        # `sh -c "./check.sh --all"` contains words within a word.
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
    """Yields git's folder if a file names it, and the hooks if the configuration names them."""
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
