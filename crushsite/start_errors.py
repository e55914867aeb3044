"""Errors that keep a process from starting, as one sentence each for whoever starts it.

Only for what the environment causes. A mistake of ours keeps its stack trace.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management import CommandError
from django.db import Error, connection

from workspaces.storage.errors import DatabaseLocked, DatabaseUnreachable, StorageFull
from workspaces.storage.failures import Failure, failure_of
from workspaces.storage.outage import one_line

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REDIS_MODULE = "redis."


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
    if failure is Failure.FULL or isinstance(error, StorageFull):
        return f"No space is left for the database {where}. Free some space, then start again."
    if failure is Failure.LOCKED or isinstance(error, DatabaseLocked):
        return f"The database {where} is locked by another process. End that process, then start again."
    if failure is Failure.UNREACHABLE or isinstance(error, DatabaseUnreachable):
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
