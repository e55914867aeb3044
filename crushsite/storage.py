"""The data folder and the database, before anything uses them.

The folder is private to its user, locked by its one server, and has the file that names the server.
The database is reachable, of this version, and fit for this shape. Errors of the environment that
prevent a start become one sentence for the person who starts the process. A bug of ours keeps its
stack trace.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DEFAULT_DB_ALIAS, Error, OperationalError, connection, connections
from django.db.migrations.executor import MigrationExecutor

from agents.tools.shell.identity import is_server_alive, this_server
from crushsite.program_name import command_line
from crushsite.server_client import SERVER_FILE, named_server
from workspaces.delivery.redis_link import RedisFailed
from workspaces.log.errors import DatabaseLocked, DatabaseUnreachable, StorageFull
from workspaces.log.failures import DatabaseFailure, failure_of
from workspaces.log.outage import one_line
from workspaces.log.timestamps import as_rfc3339, now_ms

SHOWN_ID = 8  # characters of an instance's id
_FULL = (errno.ENOSPC, errno.EDQUOT)


def ensure_data_dir() -> Path:
    """Creates the data folder, private to its user. Raises ``CommandError``."""
    folder: Path = settings.DATA_DIR
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CommandError(
            f"The data folder {folder} cannot be created: {error.strerror}. Set CRUSH_DATA_DIR."
        ) from error
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise CommandError(
            f"The data folder {folder} belongs to another user. Its owner could read keys and"
            " conversations: set CRUSH_DATA_DIR to a folder of your own."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise CommandError(
            f"The data folder {folder} is open to other users (mode"
            f" {stat.S_IMODE(found.st_mode):04o}). It contains keys and conversations: run"
            f" `chmod 700 {shlex.quote(str(folder))}`."
        )
    return folder


LOCK_PAUSE_SECONDS = 0.05
# A command without a server has one of its own for about as long.
COMMAND_SECONDS = 3.0
STARTING_SECONDS = 30.0


@contextmanager
def sole_server(folder: Path, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Holds the folder's lock: a second server on the same data would bypass the first."""
    with folder_lock(folder, wait_seconds=wait_seconds) as is_ours:
        if not is_ours:
            raise CommandError(held_by(folder))
        yield


@contextmanager
def folder_lock(folder: Path, *, wait_seconds: float = 0.0) -> Iterator[bool]:
    """Tries to take the lock; yields ``False`` if it is held. Raises ``CommandError``."""
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
        yield _is_locked(descriptor, folder, wait_seconds)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, folder: Path, wait_seconds: float) -> bool:
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait_seconds or not _may_wait(folder, wait_seconds, began=began):
                return False
            time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return True


def _may_wait(folder: Path, seconds: float, *, began: float) -> bool:
    """Whether to wait longer: a holder that no file names is starting or stopping."""
    is_named = named_server(folder) is not None
    return time.monotonic() - began < (seconds if is_named else STARTING_SECONDS)


def held_by(folder: Path) -> str:
    holder = named_server(folder)
    if holder is not None and holder.is_temporary:
        return (
            f"A prompt with --wait already runs on {folder} (pid {holder.pid}). Let it end, cancel"
            " it with Ctrl-C, or set CRUSH_DATA_DIR to another folder."
        )
    return f"A server already runs on {folder}. Stop it, or set CRUSH_DATA_DIR to another folder."


def write_server_file(folder: Path, address: str, *, is_temporary: bool = False) -> None:
    """Writes where commands find this server. A temporary server ends with its prompt."""
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
    # Several web processes may share a folder: the last one to start owns the file.
    named = named_server(folder)
    if named is not None and named.pid == os.getpid():
        (folder / SERVER_FILE).unlink(missing_ok=True)


def public_address() -> str:
    """Returns where browsers reach this server; empty if only a socket file leads to it."""
    if settings.CRUSH_PUBLIC_URL:
        return str(settings.CRUSH_PUBLIC_URL)
    named = named_server(settings.DATA_DIR)
    return named.url if named is not None and named.url.startswith("http") else ""


# -- the database


PROCESSES = "processes"


def note_process(folder: Path) -> None:
    """Lists this process among the server's processes on this machine."""
    processes = folder / PROCESSES
    processes.mkdir(mode=0o700, exist_ok=True)
    (processes / this_server().replace("/", "_")).touch(mode=0o600)


def forget_process(folder: Path) -> None:
    with suppress(OSError):
        (folder / PROCESSES / this_server().replace("/", "_")).unlink(missing_ok=True)


def running_here(folder: Path) -> list[int]:
    """Returns the pids of the server's processes on this machine."""
    pids = []
    for file in (folder / PROCESSES).glob("*@*"):
        instance = file.name.replace("_", "/")
        if is_server_alive(instance):
            pids.append(int(instance.partition("@")[0]))
        else:
            file.unlink(missing_ok=True)  # it was killed
    return pids


@dataclass(frozen=True, slots=True)
class MigrationState:
    """How the database differs from this program; neither lists what both have."""

    missing: int  # migrations that are not applied
    newer: tuple[str, ...]  # applied migrations that this program does not have


def migration_state() -> MigrationState:
    """Raises ``OperationalError`` if the database is unreachable."""
    executor = MigrationExecutor(connection)
    loader = executor.loader
    # A squashed migration is recorded under the names that it replaces, too.
    known = set(loader.disk_migrations)
    known.update(name for found in loader.disk_migrations.values() for name in found.replaces)
    # Rows of an app that a setting has removed, like those of single sign-on, do no harm.
    ours = loader.migrated_apps
    newer = sorted(
        f"{app}.{name}"
        for app, name in loader.applied_migrations
        if app in ours and (app, name) not in known
    )
    return MigrationState(len(executor.migration_plan(loader.graph.leaf_nodes())), tuple(newer))


def require_database() -> None:
    """Raises ``CommandError`` with advice unless the database is reachable and current."""
    try:
        state = migration_state()
    except OperationalError as error:
        raise CommandError(
            f"The database cannot be opened ({error}). Either no server has run yet, or CRUSH_DATA_DIR"
            f" or DATABASE_URL names another place: start a server once with {command_line('serve')}."
        ) from error
    refuse_newer(state)
    if state.missing:
        raise CommandError(
            "The database belongs to another version of this program: start the server once, or run"
            f" `{command_line('migrate')}`."
        )


def require_migrated() -> None:
    """Raises ``CommandError`` unless the database is of this version, for processes that share it.

    They do not migrate: another one may still use the database.
    """
    with explained_start():
        state = migration_state()
    connection.close()
    refuse_newer(state)
    if state.missing:
        raise CommandError(
            f"The database lacks {state.missing} migration{'s' * (state.missing != 1)} of this"
            f" version: run `{command_line('migrate')}` once, then start this process again."
        )


def refuse_newer(state: MigrationState) -> None:
    """Raises ``CommandError`` if a newer version of this program has migrated the database."""
    if state.newer:
        raise CommandError(
            f"A newer version of this program has migrated the database ({state.newer[-1]}): start"
            " that version, or restore a backup that this one has made."
        )


LONGEST_NAME = 63  # PostgreSQL cuts longer ones
DEFAULT_NAME = "crush-server"


def name_connections(kind: str, instance_id: str) -> None:
    """Names this process in PostgreSQL: its kind, its pid, and the beginning of its id in leases.

    A name that the URL of the database gives stays. Call it before connections are opened.
    """
    if connection.vendor == "postgresql":
        options = connections.settings[DEFAULT_DB_ALIAS]["OPTIONS"]
        if options.get("application_name") == DEFAULT_NAME:
            name = f"{DEFAULT_NAME} {kind} {os.getpid()} {instance_id[:SHOWN_ID]}"
            options["application_name"] = name[:LONGEST_NAME]


def require_scaled_settings() -> None:
    """Raises ``CommandError`` for several processes on SQLite or without Redis."""
    if connection.vendor == "sqlite":
        raise CommandError(
            "Several processes cannot share SQLite: set DATABASE_URL=postgres://…, or run "
            f"`{command_line('serve')}`, which does everything in one process."
        )
    if not settings.REDIS_URL:
        raise CommandError(
            "Several processes notify each other through Redis: set REDIS_URL=redis://…, or run "
            f"`{command_line('serve')}`."
        )


@contextmanager
def explained_start() -> Iterator[None]:
    """Converts errors that the user can correct to ``CommandError``."""
    try:
        yield
    except (Error, DatabaseUnreachable, DatabaseLocked, StorageFull, OSError) as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        raise CommandError(sentence) from error
    except RedisFailed as error:
        raise CommandError(
            f"Redis cannot be reached ({one_line(error)}). Start it, or correct REDIS_URL."
        ) from error


def _sentence(error: Exception) -> str | None:
    where = str(connection.settings_dict["NAME"]) if connection.vendor == "sqlite" else ""
    if isinstance(error, TimeoutError):
        return "Redis does not answer. Check that it runs, or correct REDIS_URL."
    if isinstance(error, OSError):
        if error.errno not in _FULL:
            return None
        return f"No space is left for {error.filename or 'the data folder'}: {error.strerror}. Free some space."
    failure = failure_of(error)
    if failure is DatabaseFailure.FULL or isinstance(error, StorageFull):
        return f"No space is left for the database {where}. Free some space, then start again."
    if failure is DatabaseFailure.LOCKED or isinstance(error, DatabaseLocked):
        return f"The database {where} is locked by another process. End that process, then start again."
    if failure is DatabaseFailure.UNREACHABLE or isinstance(error, DatabaseUnreachable):
        cause = error.__cause__ or error
        place = where or "of DATABASE_URL"
        return f"The database {place} cannot be reached ({one_line(cause)})."
    if where and _is_broken_file(error):
        return (
            f"The database {where} is damaged ({one_line(error)}). Move it away; then restore a backup,"
            " or start with an empty database."
        )
    return None


def _is_broken_file(error: Exception) -> bool:
    """Whether the error is ``SQLITE_CORRUPT`` or ``SQLITE_NOTADB``."""
    return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF in {11, 26}


def ensure_database() -> None:
    """Prepares the data folder and the database for a command that needs no server.

    Raises ``CommandError``.
    """
    folder = ensure_data_dir()
    state = migration_state()
    refuse_newer(state)
    began = time.monotonic()
    while state.missing:
        with folder_lock(folder) as is_ours:
            if is_ours:  # never migrate under a running server of another version
                ensure_migrated()
                return
        if not _may_wait(folder, COMMAND_SECONDS, began=began):
            raise CommandError(held_by(folder))
        time.sleep(LOCK_PAUSE_SECONDS)  # another command may be preparing the database
        state = migration_state()


def ensure_migrated() -> None:
    """Migrates the database to this version; fast when there is nothing to do.

    Raises ``CommandError`` if a newer version has migrated it.
    """
    if connection.vendor == "sqlite":
        _make_private(str(connection.settings_dict["NAME"]))
    with explained_start():
        state = migration_state()
        refuse_newer(state)
        if state.missing:
            call_command("migrate", verbosity=0, interactive=False)
    connection.close()


def _make_private(database: str) -> None:
    """Creates the file for this user only: SQLite would make it and its log world-readable."""
    try:
        descriptor = os.open(database, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CommandError(
            f"The database {database} cannot be written: {error.strerror}."
        ) from error
    with suppress(PermissionError):  # another user's file: its owner sets the mode
        os.fchmod(descriptor, 0o600)
    os.close(descriptor)
