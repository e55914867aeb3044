"""Files as the protocol names them (``file:`` addresses) and as paths. Pure."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agents.tools.limits import MAX_PATH_BYTES


def address_of(path: str | Path) -> str:
    return Path(path).as_uri()


def path_of(address: object) -> Path | None:
    """An absolute, cleaned path; ``None`` for anything that is no file of this machine."""
    if not isinstance(address, str) or len(address) > 4 * MAX_PATH_BYTES:
        return None
    try:
        parts = urlsplit(address)
        path = unquote(parts.path, errors="strict")
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or "\0" in path:
        return None
    if not path.startswith("/") or len(path.encode(errors="replace")) > MAX_PATH_BYTES:
        return None
    return Path(os.path.normpath(path))
