"""Programs that lie in the folder whose configuration starts them, by digest.

A trusted command may name a script of the folder. Who trusted it has trusted the script as
it was: a changed one is another program. Blocks on the disk, raises nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import PurePath

from workspaces.config.folder_powers import is_within
from workspaces.config.regular_file import Unreadable, read_regular_file

FILES_LIMIT = 64
SIZE_LIMIT = 4 << 20


def folder_programs(words: Iterable[str], path: str) -> dict[str, str]:
    """The files of the folder that words of commands name."""
    found: dict[str, str] = {}
    for word in dict.fromkeys(words):
        if not word or len(word) > 4_096 or "\0" in word or len(found) >= FILES_LIMIT:
            continue
        # ``--config=tools/x.py`` names a file too.
        named = word.rpartition("=")[2] if word.startswith("-") else word
        file = os.path.normpath(PurePath(path, named))
        if file != path and is_within(file, path) and (digest := _digest(file)):
            found[file] = digest
    return found


def _digest(file: str) -> str:
    try:
        content = read_regular_file(file, limit=SIZE_LIMIT)
    except Unreadable:
        return ""
    more = "+" if content.truncated else ""
    return hashlib.sha256(content.data).hexdigest() + more
