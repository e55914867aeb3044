"""Changes one stored JSON file atomically, under a lock, readable only by its owner.

This module does not interpret the file. A reader sees the old file or the new one; writers of
any process take turns. The errors of all stored changes are defined here, too.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agents.config.parse import DEPTH_LIMIT, SIZE_LIMIT, Tree, parse_bytes, parse_file
from workspaces.log.errors import Refusal


class StoredConfigError(Refusal):
    """A change of the stored configuration is refused."""

    code = "stored_config"


class InvalidScope(StoredConfigError):
    """The scope is not one of the two that exist."""

    code = "invalid_scope"


class InvalidKey(StoredConfigError):
    """The key is not a dotted path of names."""

    code = "invalid_key"


class InvalidValue(StoredConfigError):
    """The value does not fit the key."""

    code = "invalid_value"


class ProviderRefused(StoredConfigError):
    """The provider cannot be used with a key alone."""

    code = "provider_refused"


class BrokenStoredFile(StoredConfigError):
    """The stored file is broken and stays unchanged."""

    code = "broken_stored_file"
    status = 409


class NoToken(StoredConfigError):
    """The provider has no OAuth token that can be renewed."""

    code = "no_token"


class RefreshRefused(StoredConfigError):
    """The provider did not renew the token."""

    code = "refresh_refused"
    status = 409


class NotWritable(StoredConfigError):
    """The stored file cannot be written."""

    code = "not_writable"
    status = 409


LOCK_SECONDS = 5.0
_LOCK_POLL_SECONDS = 0.01


def change_stored_file(file: str, change: Callable[[Tree], None]) -> None:
    """Lets ``change`` edit the file's tree in place, and writes the result.

    Blocks. Raises ``StoredConfigError`` without writing anything.
    """
    try:
        Path(file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(file):
            parsed = parse_file(file)
            if parsed.problems:
                raise BrokenStoredFile(f"{parsed.problems[0]}; correct or remove the file first")
            tree = parsed.tree
            change(tree)
            _replace(file, _encoded(tree))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its path is not valid"
        raise NotWritable(f"{file} cannot be written: {reason.lower()}") from None


def _encoded(tree: Tree) -> bytes:
    """Returns the file's bytes. Raises ``InvalidValue`` if they could not be parsed again."""
    try:
        text = json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False)
        data = text.encode() + b"\n"
    except (ValueError, TypeError, RecursionError):
        raise InvalidValue("the value is not plain JSON") from None
    if len(data) > SIZE_LIMIT:
        raise InvalidValue(f"the stored file would be larger than {SIZE_LIMIT} bytes")
    if parse_bytes(data, file="")[1] is not None:
        raise InvalidValue(f"the value is nested more than {DEPTH_LIMIT} levels deep")
    return data


def _replace(file: str, data: bytes) -> None:
    folder = Path(file).parent
    # mkstemp creates the file with mode 0600, because it may contain keys.
    handle, temporary = tempfile.mkstemp(prefix=".crush-", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(file)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    """Syncs the folder, so that the rename survives a crash too."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some file systems do not support it
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(file: str) -> Iterator[None]:
    """Locks a second file, because the file itself is replaced and its lock would be lost."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(f"{file}.lock", flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "its lock is not a regular file")
        _lock(handle)
        yield
    finally:
        os.close(handle)  # this releases the lock


def _lock(handle: int) -> None:
    ends_at = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= ends_at:
                raise OSError(errno.EBUSY, "another program holds its lock") from None
            time.sleep(_LOCK_POLL_SECONDS)
        else:
            return
