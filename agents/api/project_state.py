"""Whether a project was described for agents yet: by its files, or by a mark in its data directory.

Touches the disk: not on the loop.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from agents.config.context_files import KNOWN_NAMES
from agents.config.stored.file import NotWritable

MARK = "init"
_PATHS_LIMIT = 500
_ENTRIES_LIMIT = 1_000


def needs_init(folder: str, data_dir: str, *, context_paths: Sequence[str]) -> bool:
    """A folder with files, without a word for agents, that nobody has marked."""
    if os.path.lexists(Path(data_dir, MARK)):
        return False
    named = dict.fromkeys((*KNOWN_NAMES, *context_paths[:_PATHS_LIMIT]))
    if any(_says_something(Path(folder, name)) for name in named):
        return False
    return any(not name.startswith(".") for name in _names(Path(folder)))


def mark_initialised(data_dir: str) -> None:
    """Callable twice. Raises ``NotWritable``."""
    try:
        folder = Path(data_dir)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in ((".gitignore", "*\n"), (MARK, "")):
            # Never through a link: the folder may have come with the project.
            with suppress(FileExistsError), (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its path is not valid"
        raise NotWritable(f"{data_dir} cannot be written: {reason.lower()}") from None


def _says_something(path: Path) -> bool:
    try:
        return bool(_names(path)) if path.is_dir() else path.is_file() and path.stat().st_size > 0
    except (OSError, ValueError):
        return False  # not ours to read, or no name at all


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _ENTRIES_LIMIT)]
    except OSError:
        return []
