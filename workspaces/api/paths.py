"""Makes clients' paths absolute and resolves symlinks. Reads the disk: not for the event loop."""

from __future__ import annotations

import os
from pathlib import Path

from workspaces.log.errors import BadField

PATH_LIMIT = 4096


def resolved(given: str, *, folder: str) -> Path:
    """Resolves a path, relative to the workspace's folder. Raises ``BadField``."""
    path = os.path.realpath(os.path.join(folder, given))  # noqa: PTH118  absolute wins
    _require_storable(path)
    return Path(path)


def resolved_folder(given: str) -> str:
    """Resolves the path of a workspace, an existing folder. Raises ``BadField``."""
    if not given.startswith("/"):
        raise BadField("path: must be absolute")
    try:
        path = os.path.realpath(given, strict=True)
    except FileNotFoundError:
        raise BadField("path: does not exist") from None
    except NotADirectoryError:
        raise BadField("path: is not a directory") from None
    except (OSError, ValueError):
        raise BadField("path: cannot be opened") from None
    if not Path(path).is_dir():
        raise BadField("path: is not a directory")
    _require_storable(path)
    return path


def _require_storable(path: str) -> None:
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        # A symlink may lead to a name that is not valid text.
        raise BadField("path: is not UTF-8") from None
    if len(encoded) > PATH_LIMIT:
        raise BadField(f"path: must have at most {PATH_LIMIT} bytes")
