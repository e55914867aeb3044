"""The data folder: private to its user, locked by its one server, with the file that names it."""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
from django.conf import settings
from django.core.management import CommandError

from crushsite.server_client import SERVER_FILE, named_server
from workspaces.log.timestamps import as_rfc3339, now_ms


def ensure_data_dir() -> Path:
    """The data folder, private to its user."""
    folder: Path = settings.DATA_DIR
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CommandError(
            f"The data folder {folder} cannot be made: {error.strerror}. Set CRUSH_DATA_DIR."
        ) from error
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise CommandError(
            f"The data folder {folder} belongs to another user. Whoever owns it could read keys and"
            " conversations: set CRUSH_DATA_DIR to a folder of your own."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise CommandError(
            f"The data folder {folder} is open to other users (mode"
            f" {stat.S_IMODE(found.st_mode):04o}). It holds keys and conversations: run"
            f" `chmod 700 {shlex.quote(str(folder))}`."
        )
    return folder


@contextmanager
def sole_server(folder: Path) -> Iterator[None]:
    """Holds the folder's lock: a second server on the same data would bypass the first."""
    with folder_lock(folder) as is_ours:
        if not is_ours:
            raise CommandError(held_by(folder))
        yield


@contextmanager
def folder_lock(folder: Path) -> Iterator[bool]:
    """Tries to hold the lock; ``False`` where another process does. Raises ``CommandError``."""
    lock = folder / "server.lock"
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if lock.is_symlink():
            raise CommandError(
                f"{lock} is a symbolic link. The server makes this file itself and follows no link"
                " there: remove it."
            ) from error
        raise CommandError(
            f"The data folder {folder} cannot be written: {error.strerror}. Set CRUSH_DATA_DIR."
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = True
    except BlockingIOError:
        is_ours = False
    try:
        yield is_ours
    finally:
        os.close(descriptor)


def held_by(folder: Path) -> str:
    holder = named_server(folder)
    if holder is not None and holder.is_temporary:
        return (
            f"A prompt with --wait already runs on {folder} (pid {holder.pid}). Let it end, cancel"
            " it with Ctrl-C, or set CRUSH_DATA_DIR to another folder."
        )
    return f"A server already runs on {folder}. Stop it, or set CRUSH_DATA_DIR to another folder."


def write_server_file(folder: Path, address: str, *, is_temporary: bool = False) -> None:
    """Where commands find this server. A temporary one ends with the prompt that it works on."""
    mine = folder / f".{SERVER_FILE}.{os.getpid()}"
    facts = {
        "url": address,
        "pid": os.getpid(),
        "started_at": as_rfc3339(now_ms()),
        "temporary": is_temporary,
    }
    descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(orjson.dumps(facts))
    mine.replace(folder / SERVER_FILE)


def remove_server_file(folder: Path) -> None:
    # Several web processes may share a folder: the file is the last one's to start.
    named = named_server(folder)
    if named is not None and named.pid == os.getpid():
        (folder / SERVER_FILE).unlink(missing_ok=True)
