"""Reads a regular file up to a limit, and never blocks on anything else.

A path in a workspace may be a FIFO, a device, a socket or a folder: opening
those could block for ever, so they are refused before and after the open.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path


class Unreadable(Exception):
    """The file cannot be read; ``reason`` is a text for people."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing


@dataclass(frozen=True, slots=True)
class FileContent:
    data: bytes
    truncated: bool
    identity: tuple[int, int]  # device and inode
    owner: int


def read_regular_file(path: str, *, limit: int) -> FileContent:
    """Returns at most ``limit`` bytes of the file. Raises only ``Unreadable``."""
    try:
        # Checked before the open: opening a device can have effects.
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise Unreadable("it is not a regular file")
        # Between the two calls the path may have become a FIFO: O_NONBLOCK returns at once.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unreadable("it does not exist", missing=True) from None
    except NotADirectoryError:
        raise Unreadable("it does not exist", missing=True) from None
    except (OSError, ValueError) as error:
        raise Unreadable(_plain(error)) from None
    try:
        return _read(handle, limit)
    except OSError as error:
        raise Unreadable(_plain(error)) from None
    finally:
        os.close(handle)


def _read(handle: int, limit: int) -> FileContent:
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable("it is not a regular file")
    pieces: list[bytes] = []
    left = limit + 1
    while left > 0:
        piece = os.read(handle, min(left, 1 << 16))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    data = b"".join(pieces)
    return FileContent(
        data[:limit], len(data) > limit, (status.st_dev, status.st_ino), status.st_uid
    )


def _plain(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be read ({error.strerror.lower()})"
    return "its name is not a valid path"  # a NUL, or text that the file system cannot encode
