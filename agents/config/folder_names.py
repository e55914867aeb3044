"""Which of certain names a folder holds, remembered while the folder is unchanged.

Every run looks for some twenty names in every folder above its workspace, and almost all
of them are not there: one question to the disk for a folder instead of one for each name.
"""

from __future__ import annotations

import os
import time

_SETTLED_NS = 2_000_000_000  # younger, a folder may change again without a newer time of change
_KEPT = 1_000

_known: dict[tuple[str, frozenset[str]], tuple[int, int, frozenset[str]]] = {}


def names_in(folder: str, wanted: frozenset[str]) -> frozenset[str]:
    """Those of the names that are there, be they what they may. Blocks on the disk.

    Raises ``OSError``, and ``ValueError`` for a NUL in the folder's path.
    """
    state = os.stat(folder)  # noqa: PTH116  called for every run
    key = (folder, wanted)
    known = _known.get(key)
    if known is not None and known[:2] == (state.st_mtime_ns, state.st_ino):
        return known[2]
    # Each name asked for: a folder may hold more than anyone would like to list.
    present = frozenset(name for name in wanted if os.path.lexists(f"{folder}/{name}"))
    if time.time_ns() - state.st_mtime_ns > _SETTLED_NS:
        if len(_known) >= _KEPT:
            _known.clear()
        _known[key] = (state.st_mtime_ns, state.st_ino, present)
    return present
