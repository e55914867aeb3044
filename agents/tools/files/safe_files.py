"""Opens and replaces files at exactly the resolved path, never through a link.

Each folder on the path is opened without following links. If a folder or file becomes a
link after the path was checked, the operation fails and does not write elsewhere. A
file is replaced whole or not at all. The functions block: call them in a thread.
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

# Python opens every descriptor so that child processes do not inherit it.
# O_PATH: a folder on the path need not be readable (/home often is not).
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
# NONBLOCK: opening a pipe without a writer would block for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_IN_PLACE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
# The folder is not writable, or the file is itself a mount.
_NO_REPLACING = {errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV}


def mark_of(status: os.stat_result) -> FileMark:
    return FileMark(mtime_ns=status.st_mtime_ns, size=status.st_size)


@contextlib.contextmanager
def folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """Yields a descriptor of a resolved folder. Raises ``OSError``."""
    current = os.open("/", _FOLDER)
    try:
        for name in path.relative_to("/").parts:
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
    """Opens a regular file to read and yields its state. Raises ``OSError`` or ``ToolRefusal``."""
    with folder(path.parent) as parent:
        descriptor = os.open(path.name or ".", _FILE, dir_fd=parent)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise ToolRefusal(f"{path} is a directory, not a file. Use ls to list it.")
        if not stat.S_ISREG(status.st_mode):
            raise ToolRefusal(f"{path} is not a regular file (a device, socket or pipe).")
        yield descriptor, status
    finally:
        os.close(descriptor)


class Stage:
    """New content for one file, written to a temporary file that replaces it atomically.

    The file is replaced only if its state still is ``expected`` (``None``: it does not
    exist), so that no other change is lost. Each method blocks and raises ``OSError``; the
    constructor and ``put`` also raise ``ToolRefusal``. The caller must always call ``close``.
    """

    def __init__(self, path: Path, *, expected: FileMark | None) -> None:
        self._path = path
        self._expected = expected
        with contextlib.ExitStack() as held:
            self._parent = held.enter_context(folder(path.parent, create=expected is None))
            self._before = _state(path, self._parent)
            _check(path, self._before, expected)
            self._temporary = f".crush-{secrets.token_hex()}.tmp"
            self.descriptor = os.open(self._temporary, _NEW, 0o666, dir_fd=self._parent)
            held.callback(os.close, self.descriptor)
            held.callback(self._remove_temporary)
            self._open = held.pop_all()

    def write(self, content: bytes) -> None:
        _write_all(self.descriptor, content)

    def put(self) -> FileMark:
        """Replaces the file and returns its new state. Keeps the mode, and the owner if allowed."""
        if self._before:
            _take_over(self.descriptor, self._before, self._path.name, self._parent)
            # Without this a power failure could lose both the old and the new content.
            os.fsync(self.descriptor)
            _check(self._path, _state(self._path, self._parent), self._expected)
        mark = mark_of(os.fstat(self.descriptor))
        if self._before is None:
            try:
                _put_new(self._temporary, self._path.name, self._parent)
            except FileExistsError:
                raise ToolRefusal(
                    f"{self._path} has been created in the meantime. View it."
                ) from None
        else:
            os.replace(
                self._temporary, self._path.name, src_dir_fd=self._parent, dst_dir_fd=self._parent
            )
        return mark

    def close(self) -> None:
        """Removes the temporary file, if it still exists. Idempotent."""
        self._open.close()

    def _remove_temporary(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._temporary, dir_fd=self._parent)


def place(path: Path, content: bytes, *, expected: FileMark | None) -> FileMark:
    """Writes ``content`` to ``path`` if its state is ``expected`` (``None``: it does not exist).

    A file that may be written but not replaced is written in place. Raises ``OSError``, or
    ``ToolRefusal`` if the file has changed.
    """
    try:
        stage = Stage(path, expected=expected)
        try:
            stage.write(content)
            return stage.put()
        finally:
            stage.close()
    except OSError as error:
        if expected is None or error.errno not in _NO_REPLACING:
            raise
    return rewrite(path, content, expected=expected)


def rewrite(path: Path, content: bytes, *, expected: FileMark) -> FileMark:
    """Writes in place to a file that cannot be replaced. A failure can leave it half written.

    Raises ``OSError``, or ``ToolRefusal`` if the file has changed.
    """
    with folder(path.parent) as parent:
        descriptor = os.open(path.name, _IN_PLACE, dir_fd=parent)
    try:
        _check(path, os.fstat(descriptor), expected)
        _write_all(descriptor, content)
        os.ftruncate(descriptor, len(content))
        return mark_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def remove(path: Path, *, expected: FileMark) -> None:
    """Deletes the file if its state is ``expected``. Raises ``OSError`` or ``ToolRefusal``."""
    with folder(path.parent) as parent:
        _check(path, _state(path, parent), expected)
        # Rename it first: what another program writes to this name meanwhile is not deleted.
        aside = f".crush-{secrets.token_hex()}.tmp"
        os.rename(path.name, aside, src_dir_fd=parent, dst_dir_fd=parent)
        try:
            _check(path, _state(path.with_name(aside), parent), expected)
        except ToolRefusal:
            _put_new(aside, path.name, parent)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside, dir_fd=parent)
            raise
        os.unlink(aside, dir_fd=parent)


@contextlib.contextmanager
def listed(path: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Lists a resolved folder, opened without following links. Raises ``OSError``."""
    with folder(path) as way:
        descriptor = os.open(".", os.O_RDONLY, dir_fd=way)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def _state(path: Path, parent: int) -> os.stat_result | None:
    try:
        status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ToolRefusal(f"{path} is not a regular file.")
    return status


def _check(path: Path, now: os.stat_result | None, expected: FileMark | None) -> None:
    if (mark_of(now) if now else None) != expected:
        raise ToolRefusal(f"{path} has changed in the meantime. View it again, then retry.")


def _put_new(temporary: str, name: str, parent: int) -> None:
    """Creates a hard link, because unlike a rename it fails if the file now exists."""
    try:
        os.link(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)


def _take_over(descriptor: int, before: os.stat_result, name: str, parent: int) -> None:
    with contextlib.suppress(OSError):  # only root may change the owner
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):  # access lists and labels, if there are any
            old = os.open(name, _FILE, dir_fd=parent)
            try:
                for attribute in os.listxattr(old):
                    os.setxattr(descriptor, attribute, os.getxattr(old, attribute))
            finally:
                os.close(old)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
