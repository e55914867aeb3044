"""Where an asked path really leads, and whether that is inside the workspace.

Everything is judged after symbolic links are followed, so a link in the
workspace that leads out of it counts as outside. Touches the disk (``lstat``
only): call it in a thread.
"""

from __future__ import annotations

import os
from pathlib import Path

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.limits import MAX_NAME_BYTES, MAX_PATH_BYTES

# Not files on a disk: reading them can block for ever, or show the server's own environment.
_KERNEL_ROOTS = (Path("/proc"), Path("/sys"), Path("/dev"))
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  a file system like any other


def resolve(asked: str, context: ToolContext) -> Path:
    """Absolute, cleaned, links followed as far as it exists. Raises ``ToolRefusal``."""
    if "\0" in asked:
        raise ToolRefusal("A path must not hold a NUL character.")
    if asked == "~" or asked.startswith("~/"):
        home = context.env.get("HOME", "")
        if home.startswith("/"):
            asked = home + asked[1:]
    joined = os.path.join(context.working_dir, asked)  # noqa: PTH118  keeps "" and absolute apart
    try:
        raw = os.fsencode(joined)
    except UnicodeEncodeError:
        raise ToolRefusal("The path holds characters that are not Unicode text.") from None
    if len(raw) > MAX_PATH_BYTES or any(len(n) > MAX_NAME_BYTES for n in raw.split(b"/")):
        raise ToolRefusal(
            f"The path is too long: {MAX_PATH_BYTES:,} bytes, and {MAX_NAME_BYTES} for each name, are allowed."
        )
    resolved = os.path.realpath(joined)
    try:
        resolved.encode()
    except UnicodeEncodeError:
        # A link may lead there. Nothing that is stored or shown could hold such a name.
        raise ToolRefusal(
            "The path leads to a name that is not UTF-8 text; use bash for it."
        ) from None
    return Path(resolved)


def is_inside(path: Path, folder: Path) -> bool:
    """Both resolved. The folder itself is inside."""
    return path == folder or folder in path.parents


def is_kernel_path(path: Path) -> bool:
    if is_inside(path, _SHARED_MEMORY):
        return False
    return any(is_inside(path, root) for root in _KERNEL_ROOTS)


def shown(path: Path, context: ToolContext) -> str:
    """Short for the model: relative inside the workspace, else absolute."""
    if is_inside(path, context.working_dir):
        return str(path.relative_to(context.working_dir))
    return str(path)
