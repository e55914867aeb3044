"""What a job has printed, as a file that any process of the host can read.

Small and replaced as a whole, so a reader never sees half of it. Links are not
followed: the folder may lie in a project that somebody else has made. Blocks.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

_FOLDER = "jobs"
_MAX_BYTES = 1024 * 1024


def path_of(data_dir: str, job_id: str) -> str:
    return str(Path(data_dir) / _FOLDER / f"{job_id}.log")


def save_output(path: str, text: str) -> None:
    """Raises ``OSError``."""
    file = Path(path)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    temporary = f".{file.name}.tmp"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(temporary, flags, 0o600, dir_fd=folder)
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode())
        os.replace(temporary, file.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def read_output(path: str) -> str:
    """Empty when there is none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return stream.read(_MAX_BYTES).decode("utf-8", errors="replace")


def forget_outputs(paths: list[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            Path(path).unlink()
