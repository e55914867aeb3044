"""Sorts database errors by the remedy: wait, retry, free disk space, or none.

Only this module contains the error codes of both databases.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from django.db import Error, connection

from workspaces.log.errors import DatabaseLocked, DatabaseUnreachable, Refusal, StorageFull


class DatabaseFailure(Enum):
    UNREACHABLE = "unreachable"  # no connection, or the server ended it
    LOCKED = "locked"  # another transaction holds the rows
    FULL = "full"  # no space left on the disk
    OTHER = "other"  # a mistake in the statement or the data


_UNREACHABLE_STATES = {
    "25006",  # read-only: a standby that is about to be promoted
    "25P03",  # the transaction was idle for too long
    "53300",  # too many connections
    "57P01",  # ended by an administrator
    "57P02",  # crash
    "57P03",  # starting or stopping
    "57P04",  # the database was dropped
    "57P05",  # the session was idle for too long
}
_LOCKED_STATES = {"55P03", "40P01", "40001"}  # lock timeout, deadlock, serialization
_FULL_STATES = {"53100"}

_SQLITE_BUSY, _SQLITE_LOCKED, _SQLITE_IOERR, _SQLITE_FULL, _SQLITE_CANTOPEN = 5, 6, 10, 13, 14
# Below this, SQLite reports an input/output error when its side files cannot grow.
_FREE_BYTES_NEEDED = 1_048_576


# Failures that may pass: the client may retry.
REFUSALS: Mapping[DatabaseFailure, type[Refusal]] = {
    DatabaseFailure.UNREACHABLE: DatabaseUnreachable,
    DatabaseFailure.LOCKED: DatabaseLocked,
    DatabaseFailure.FULL: StorageFull,
}


def failure_of(error: BaseException) -> DatabaseFailure:
    if not isinstance(error, Error):
        return DatabaseFailure.OTHER
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause)
    if type(cause).__module__.startswith("psycopg"):
        return _of_postgres(cause)
    return DatabaseFailure.LOCKED if "database is locked" in str(error) else DatabaseFailure.OTHER


def refusal_of(failure: DatabaseFailure) -> Refusal | None:
    """Returns the error for the client, or ``None`` if the failure is a bug of the server."""
    kind = REFUSALS.get(failure)
    return None if kind is None else kind()


def _of_postgres(cause: object) -> DatabaseFailure:
    state: str | None = getattr(cause, "sqlstate", None)
    if state is None:
        # No SQLSTATE: the error comes from psycopg and concerns the connection.
        is_connection = type(cause).__name__ in {"OperationalError", "InterfaceError"}
        return (
            DatabaseFailure.UNREACHABLE
            if is_connection or _is_timeout(cause)
            else DatabaseFailure.OTHER
        )
    if state in _UNREACHABLE_STATES or state.startswith("08"):
        return DatabaseFailure.UNREACHABLE
    if state in _LOCKED_STATES:
        return DatabaseFailure.LOCKED
    return DatabaseFailure.FULL if state in _FULL_STATES else DatabaseFailure.OTHER


def _is_timeout(cause: object) -> bool:
    return type(cause).__name__ == "ConnectionTimeout"


def _of_sqlite(cause: sqlite3.Error) -> DatabaseFailure:
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF  # the upper bits are the extended code
    if code in {_SQLITE_BUSY, _SQLITE_LOCKED}:
        return DatabaseFailure.LOCKED
    if code == _SQLITE_FULL or (code == _SQLITE_IOERR and _is_disk_full()):
        return DatabaseFailure.FULL
    return DatabaseFailure.UNREACHABLE if code == _SQLITE_CANTOPEN else DatabaseFailure.OTHER


def _is_disk_full() -> bool:
    folder = Path(str(connection.settings_dict["NAME"])).parent
    try:
        return shutil.disk_usage(folder).free < _FREE_BYTES_NEEDED
    except OSError:
        return False
