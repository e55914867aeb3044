"""Puts files in the order of their last change, newest first."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_STATTED = 20_000


def newest_first(root: Path, paths: Iterable[str]) -> tuple[list[str], bool]:
    """Blocks. The order, and whether all were looked at."""
    known: list[tuple[float, str]] = []
    for path in paths:
        if len(known) == _STATTED:
            return _ordered(known), False
        try:
            # Not by way of a Path: there may be thousands, and somebody waits.
            changed = os.lstat(f"{root}/{path}").st_mtime
        except OSError:  # gone since it was listed
            continue
        known.append((-changed, path))
    return _ordered(known), True


def _ordered(known: list[tuple[float, str]]) -> list[str]:
    return [path for _, path in sorted(known)]
