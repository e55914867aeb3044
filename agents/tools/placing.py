"""Opens and replaces files at exactly the place that was resolved, never through a link.

Each folder on the way is opened without following links, so whoever swaps a
folder or file for a link after the path was judged gets a refusal, not a write
to elsewhere. A file is replaced whole or not at all. Blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from agents.tools.contract import FileMark, ToolRefusal

# O_PATH: a folder that may be passed through need not be readable (/home often is not).
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# NONBLOCK: opening a pipe with no writer would wait for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_IN_PLACE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A folder one may not write in, or a file that is itself a mount.
_NO_REPLACING = {errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV}


def mark_of(status: os.stat_result) -> FileMark:
    return FileMark(mtime_ns=status.st_mtime_ns, size=status.st_size)


@contextlib.contextmanager
def folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of a resolved folder. Raises ``OSError``."""
    current = os.open("/", _FOLDER)
    try:
        for name in path.parts[1:]:
            try:
                inner = os.open(name, _FOLDER, dir_fd=current)
            except FileNotFoundError:
                if not create:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=current)
                inner = os.open(name, _FOLDER, dir_fd=current)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file to read, and its state. Raises ``OSError`` or ``ToolRefusal``."""
    with folder(path.parent) as parent:
        descriptor = os.open(path.name or ".", _FILE, dir_fd=parent)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise ToolRefusal(f"{path} is a directory, not a file. Use ls to see what is in it.")
        if not stat.S_ISREG(status.st_mode):
            raise ToolRefusal(f"{path} is not a regular file (a device, socket or pipe).")
        yield descriptor, status
    finally:
        os.close(descriptor)


def place(path: Path, content: bytes, *, expected: FileMark | None) -> FileMark:
    """Make ``path`` hold ``content``, if it still is as ``expected`` (``None``: not there).

    Keeps the mode of what it replaces, and its owner where allowed.
    Raises ``OSError``, or ``ToolRefusal`` when the file changed.
    """
    with folder(path.parent, create=expected is None) as parent:
        before = _state(path, parent)
        if (mark_of(before) if before else None) != expected:
            raise ToolRefusal(f"{path} has changed in the meantime. View it again, then retry.")
        temporary = f".crush-{secrets.token_hex(8)}.tmp"
        try:
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=parent
            )
        except OSError as error:
            if before is None or error.errno not in _NO_REPLACING:
                raise
            return _rewrite(path, content, parent)
        try:
            try:
                if before:
                    _take_over(descriptor, before)
                _write_all(descriptor, content)
                mark = mark_of(os.fstat(descriptor))
            finally:
                os.close(descriptor)
            if before is None:
                _put_new(temporary, path.name, parent)
            else:
                os.replace(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            if before is None and error.errno == errno.EEXIST:
                raise ToolRefusal(f"{path} has been created in the meantime. View it.") from None
            if before is None or error.errno not in _NO_REPLACING:
                raise
            return _rewrite(path, content, parent)
        return mark


def _state(path: Path, parent: int) -> os.stat_result | None:
    try:
        status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ToolRefusal(f"{path} is not a regular file.")
    return status


def _put_new(temporary: str, name: str, parent: int) -> None:
    """Unlike a rename, a link fails if somebody made the file meanwhile."""
    try:
        os.link(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    else:
        os.unlink(temporary, dir_fd=parent)


def _take_over(descriptor: int, before: os.stat_result) -> None:
    if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _rewrite(path: Path, content: bytes, parent: int) -> FileMark:
    """Into the file itself: not whole-or-nothing, for where replacing is not possible."""
    descriptor = os.open(path.name, _IN_PLACE, dir_fd=parent)
    try:
        _write_all(descriptor, content)
        os.ftruncate(descriptor, len(content))
        return mark_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
