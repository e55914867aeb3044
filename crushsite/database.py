"""The database before anything uses it: reachable, of this version, fit for this shape.

Errors that keep a process from starting become one sentence for the person who starts it. Only
what the environment causes: a mistake of ours keeps its stack trace.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import Error, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from crushsite.program_name import command_line
from workspaces.log.errors import DatabaseLocked, DatabaseUnreachable, StorageFull
from workspaces.log.failures import DatabaseFailure, failure_of
from workspaces.log.outage import one_line

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REDIS_MODULE = "redis."


def unapplied_migrations() -> int:
    """Raises ``OperationalError`` when the database cannot be reached."""
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def require_database() -> None:
    """Raises ``CommandError`` with what to do."""
    try:
        missing = unapplied_migrations()
    except OperationalError as error:
        raise CommandError(
            f"The database cannot be opened ({error}). Nothing was stored yet, or CRUSH_DATA_DIR or"
            f" DATABASE_URL names another place: start the server once with {command_line('serve')}."
        ) from error
    if missing:
        raise CommandError(
            "The database is of another version: start the server once, or run"
            f" `{command_line('migrate')}`."
        )


def require_scaled_settings() -> None:
    """Refuses several processes on SQLite or without Redis, with what to do."""
    if connection.vendor == "sqlite":
        raise CommandError(
            "Several processes cannot share SQLite: set DATABASE_URL=postgres://…, or run "
            f"`{command_line('serve')}`, which does everything in one process."
        )
    if not settings.REDIS_URL:
        raise CommandError(
            "Several processes hear of each other through Redis: set REDIS_URL=redis://…, or run "
            f"`{command_line('serve')}`."
        )


@contextmanager
def explained_start() -> Iterator[None]:
    """Raises ``CommandError`` for what whoever starts the process can cure."""
    try:
        yield
    except (Error, DatabaseUnreachable, DatabaseLocked, StorageFull, OSError) as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        raise CommandError(sentence) from error
    except Exception as error:
        if not type(error).__module__.startswith(_REDIS_MODULE):
            raise
        raise CommandError(
            f"Redis cannot be reached ({one_line(error)}). Start it, or correct REDIS_URL."
        ) from error


def _sentence(error: Exception) -> str | None:
    where = str(connection.settings_dict["NAME"]) if connection.vendor == "sqlite" else ""
    if isinstance(error, TimeoutError):
        return "Redis does not answer. Look after it, or correct REDIS_URL."
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
            f"The database {where} is broken ({one_line(error)}). Move it away and put a backup in"
            " its place, or move it away and start with an empty one."
        )
    return None


def _is_broken_file(error: Exception) -> bool:
    """``SQLITE_CORRUPT`` and ``SQLITE_NOTADB``."""
    return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF in {11, 26}


def ensure_migrated() -> None:
    """Brings the database to this version; quick when there is nothing to do."""
    if connection.vendor == "sqlite":
        _make_private(str(connection.settings_dict["NAME"]))
    with explained_start():
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", verbosity=0, interactive=False)
    connection.close()


def _make_private(database: str) -> None:
    """SQLite would make its file for everybody to read, and its log like the file."""
    try:
        descriptor = os.open(database, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CommandError(
            f"The database {database} cannot be written: {error.strerror}."
        ) from error
    with suppress(PermissionError):  # another user's: it is as its owner wants it
        os.fchmod(descriptor, 0o600)
    os.close(descriptor)
