"""Runs SQL written by hand on Django's connection, without Django's cursor.

On SQLite, Django's cursor rewrites the placeholders of each statement each time. A short statement
takes 5.8 µs by it, and 3.0 µs here (`python -m tests.bench.bypasses statements`). On PostgreSQL it
writes the values into the statement, which is then planned each time: 2.3 ms of planning for a
prompt, and 0.3 ms here, where statements are prepared. Placeholders are ``%s`` for both databases;
errors are Django's when the block ends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from typing_extensions import override

MOST_PREPARED = 500  # by connection; lists of values make a statement for each length


class Statements(Protocol):
    """The methods of a cursor that our code uses."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, sql: str, params: Sequence[Any] = (), /) -> Any: ...

    def executemany(self, sql: str, params: Iterable[Sequence[Any]], /) -> Any: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


@contextmanager
def statements() -> Generator[Statements, None, None]:
    """Yields a cursor of this thread's connection, which is opened if necessary."""
    # Looked up once: Django's proxy takes 1.2 µs for each attribute.
    own: BaseDatabaseWrapper = connections[DEFAULT_DB_ALIAS]
    own.ensure_connection()
    with own.wrap_database_errors:
        cursor = _cursor(own)
        try:
            yield cursor
        finally:
            cursor.close()


def _cursor(own: BaseDatabaseWrapper) -> Any:
    if own.vendor == "sqlite":
        return own.connection.cursor(_SqliteStatements)
    from psycopg import Cursor  # noqa: PLC0415  SQLite does without

    # Django's cursor writes the parameters into the statement: PostgreSQL would plan each anew.
    own.connection.prepared_max = MOST_PREPARED
    return Cursor(own.connection)


# The base class accepts mappings as well, which our statements do not use.
class _SqliteStatements(sqlite3.Cursor):
    @override
    def execute(self, sql: str, params: Sequence[Any] = (), /) -> Any:  # type: ignore[override]
        return super().execute(_with_question_marks(sql), params)

    @override
    def executemany(self, sql: str, params: Iterable[Sequence[Any]], /) -> Any:  # type: ignore[override]
        return super().executemany(_with_question_marks(sql), params)


@lru_cache(maxsize=1_000)
def _with_question_marks(sql: str) -> str:
    return sql.replace("%s", "?")
