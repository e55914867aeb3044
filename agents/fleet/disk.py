"""Files that others read while they are written, in folders that others may have filled.

A file appears whole or not at all, and survives a crash once written. Reading
follows no link, waits for no pipe and takes no more than it was told. Blocks.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

_LONGEST_NAME = 200  # bytes; leaves room for the temporary's prefix and suffix
_TEMPORARY = re.compile(r"\..+\.(tmp|collecting)\.[0-9a-f-]{32,36}")
_MOST_ENTRIES = 100_000


def is_safe_name(name: str) -> bool:
    """Whether an id may be part of a file's name: one visible path element."""
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME
        and not name.startswith(".")
        and name.isprintable()
        and "/" not in name
        and "\\" not in name
    )


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Raises ``OSError``. A link or file of that name is replaced, not followed."""
    temporary = path.parent / f".{path.name}.tmp.{uuid.uuid4()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask says
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes a rename last. Some file systems cannot; then it is theirs to keep."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_regular(path: Path, *, most_bytes: int) -> bytes | None:
    """The whole file; None when there is none, or it is a link, a pipe, or too large."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            told = os.fstat(file.fileno())
            if not stat.S_ISREG(told.st_mode) or told.st_size > most_bytes:
                return None
            data = file.read(most_bytes + 1)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return data if len(data) <= most_bytes else None


def visible_json(folder: Path) -> list[str]:
    """Names of the ``.json`` entries that are not hidden, sorted."""
    names = (name for name in _names(folder) if not name.startswith("."))
    return sorted(name for name in names if name.endswith(".json"))


def remove_old_temporaries(folder: Path, *, older_than_seconds: float) -> None:
    """What a writer that died left behind."""
    before = time.time() - older_than_seconds
    for name in _names(folder):
        if _TEMPORARY.fullmatch(name):
            with contextlib.suppress(OSError):
                if (folder / name).lstat().st_mtime < before:
                    (folder / name).unlink()


def _names(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_ENTRIES:
                    return
                yield entry.name
    except OSError:
        return
