"""The paths of workspaces whose folder is on another machine: ``NAME:ROOT``. Pure.

NAME is the remote worker that performs the workspace's prompts, and ROOT one of its folders, under
the name that it announces. Every other path is absolute, so the two cannot be confused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class RemotePlace:
    worker: str
    root: str

    @property
    def path(self) -> str:
        return f"{self.worker}:{self.root}"


def remote_place(path: str) -> RemotePlace | None:
    """Returns the remote place that a path names; ``None`` for a folder of this machine."""
    worker, separator, root = path.partition(":")
    if separator and NAME.fullmatch(worker) and NAME.fullmatch(root):
        return RemotePlace(worker, root)
    return None
