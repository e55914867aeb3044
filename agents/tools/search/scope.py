"""What a search may look at: a folder or file of the workspace, never beyond it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.paths import is_inside, resolve


@dataclass(frozen=True, slots=True)
class Scope:
    root: Path  # the folder to start in
    name: str = ""  # one file of it, when only that is searched


def scope(asked: str, context: ToolContext, *, file_allowed: bool) -> Scope:
    """Blocks. Raises ``ToolRefusal``."""
    path = resolve(asked, context)
    if not is_inside(path, context.working_dir):
        raise ToolRefusal(
            f"{path} is outside of the working directory, where searches do not go. "
            "Use ls and view there: they ask for permission."
        )
    if path.is_dir():
        return Scope(path)
    if file_allowed and path.is_file():
        return Scope(path.parent, path.name)
    kind = "not a directory" if path.exists() else "not there"
    raise ToolRefusal(f"{path} is {kind}. Use ls to see what is.")
