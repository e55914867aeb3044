"""Paths that clients send: absolute, cleaned, links followed. Looks at the disk: not on the loop."""

from __future__ import annotations

import os
from pathlib import Path

from workspaces.log.errors import BadField

PATH_LIMIT = 4096


def resolved(asked: str, *, folder: str) -> Path:
    """A relative path begins at the workspace's folder. Raises ``BadField``."""
    path = os.path.realpath(os.path.join(folder, asked))  # noqa: PTH118  absolute wins
    _require_storable(path)
    return Path(path)


def resolved_folder(asked: str) -> str:
    """A workspace's path. Raises ``BadField``."""
    if not asked.startswith("/"):
        raise BadField("path: must be absolute")
    try:
        path = os.path.realpath(asked, strict=True)
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
        # A link may lead to a name that is no text.
        raise BadField("path: is not UTF-8") from None
    if len(encoded) > PATH_LIMIT:
        raise BadField(f"path: must have at most {PATH_LIMIT} bytes")
