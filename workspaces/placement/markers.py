"""The file that marks the folder of a root: without it, a disk is not mounted, or the host is wrong.

Everything here reads or writes the disk and may block: not for the event loop.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from workspaces.placement.roots import Root

MARKER = ".crush-root"
ID = re.compile(r"[0-9a-f-]{36}")
_LONGEST = 200  # bytes of a marker


class MarkerProblem(Exception):
    """The folder is not the root's. The message says why."""


def verify_root(root: Root, *, path: str, marker: str) -> None:
    """Checks that a folder is the root with this stored path and marker. Raises ``MarkerProblem``."""
    real = os.path.realpath(root.path)
    if real != path:
        raise MarkerProblem(f"{root.path} leads to {real}, but the folder of the root is {path}")
    if not Path(path).is_dir():
        raise MarkerProblem(f"{path} does not exist here")
    found = read_marker(path)
    if not found:
        raise MarkerProblem(
            f"{path} has no {MARKER}: a disk is not mounted, or this is another machine's folder"
        )
    if found != marker:
        raise MarkerProblem(f"{path}/{MARKER} is the marker of another root")


def read_marker(folder: str) -> str:
    """Returns the id in a folder's marker; empty without one. Raises ``MarkerProblem``."""
    path = Path(folder, MARKER)
    try:
        # Agents may write there: a link, a pipe or a large file must not lead or hold us anywhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise MarkerProblem(f"{path} cannot be read: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise MarkerProblem(f"{path} is not a file")
        content = os.read(descriptor, _LONGEST).decode("ascii", "replace").strip()
    except OSError as error:
        raise MarkerProblem(f"{path} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if not ID.fullmatch(content):
        raise MarkerProblem(f"{path} is not a marker")
    return content


def write_marker(folder: str, marker: str) -> None:
    """Writes the marker of a folder that has none. Raises ``MarkerProblem``."""
    path = Path(folder, MARKER)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{marker}\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise MarkerProblem(f"{path} cannot be written: {error.strerror}") from error
