"""Runs SQL written by hand on Django's connection, without Django's cursor.

On SQLite, Django's cursor rewrites the placeholders of each statement each time. A short statement
takes 5.8 µs by it, and 3.0 µs here (`python -m tests.bench.bypasses statements`). On PostgreSQL it
writes the values into the statement, which is then planned each time: 2.3 ms of planning for a
prompt, and 0.3 ms here, where statements are prepared. Placeholders are ``%s`` for both databases;
errors are Django's when the block ends.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from typing_extensions import override

MOST_WAITING = 500  # statements
_IDLE = 0  # of libpq: no transaction is open
MOST_PREPARED = 500  # by connection; lists of values make a statement for each length


class Statements(Protocol):
    """The methods of a cursor that our code uses."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, sql: str, params: Sequence[Any] = (), /) -> Any: ...

    def executemany(self, sql: str, params: Iterable[Sequence[Any]], /) -> Any: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


Rows = list[tuple[Any, ...]]


# Statements of this thread's open transaction that wait for the next one. Some have a list that gets
# their rows.
class _Waiting(threading.local):
    def __init__(self) -> None:
        self.statements: list[tuple[str, Sequence[Any], Rows | None]] = []


_waiting = _Waiting()


def execute_soon(cursor: Statements, sql: str, params: Sequence[Any]) -> None:
    """Runs a statement whose result is not needed, on PostgreSQL together with the next statement.

    It saves a round trip, while other processes wait for the rows that this one has locked. Only
    ``commit`` may use it: it sends what waits before each job ends.
    """
    if isinstance(cursor, _PostgresStatements):
        _waiting.statements.append((sql, params, None))
        if len(_waiting.statements) >= MOST_WAITING:
            cursor.send_waiting()
    else:
        cursor.execute(sql, params)


def fetch_soon(cursor: Statements, sql: str, params: Sequence[Any]) -> Rows:
    """As ``execute_soon``; returns a list that has the rows after the next statement."""
    rows: Rows = []
    if isinstance(cursor, _PostgresStatements):
        _waiting.statements.append((sql, params, rows))
    else:
        cursor.execute(sql, params)
        rows += cursor.fetchall()
    return rows


@contextmanager
def sending_soon(
    cursor: Statements, on_sent: Callable[[Statements], None]
) -> Generator[None, None, None]:
    """Lets statements wait in this block. Those of the ORM come after them; an error drops them.

    ``on_sent`` is called before a statement of the ORM, when those that waited have been run.
    """
    if not isinstance(cursor, _PostgresStatements):
        yield
        return

    def in_order(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        cursor.send_waiting()
        on_sent(cursor)
        return execute(sql, params, many, context)

    try:
        with connections[DEFAULT_DB_ALIAS].execute_wrapper(in_order):
            yield
            cursor.send_waiting()
    finally:
        _waiting.statements.clear()


def send_waiting(cursor: Statements) -> None:
    if isinstance(cursor, _PostgresStatements):
        cursor.send_waiting()


def send_commit(cursor: Statements) -> None:
    """Commits on PostgreSQL, together with the statements that wait: Django finds nothing to commit.

    Other processes get the locked rows one round trip earlier.
    """
    if isinstance(cursor, _PostgresStatements):
        cursor.send_waiting(and_commit=True)


@contextmanager
def statements() -> Generator[Statements, None, None]:
    """Yields a cursor of this thread's connection, which is opened if necessary."""
    # Looked up once: Django's proxy takes 1.2 µs for each attribute.
    own: BaseDatabaseWrapper = connections[DEFAULT_DB_ALIAS]
    if own.vendor != "sqlite":
        own.close_if_health_check_failed()  # as Django's cursor does
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

    own.connection.prepared_max = MOST_PREPARED
    return _PostgresStatements(own.connection, Cursor, own.settings_dict.get("PREPARED_AFTER"))


class _PostgresStatements:
    def __init__(self, connection: Any, kind: Any, prepared_after: int | None) -> None:
        self._connection = connection
        self._kind = kind
        self._prepared_after = prepared_after
        self._cursor = kind(connection)

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    def execute(self, sql: str, params: Sequence[Any] = (), /) -> None:
        begins = (
            not self._connection.autocommit and self._connection.info.transaction_status == _IDLE
        )
        if not begins and not _waiting.statements:
            with self._preparing():
                self._cursor.execute(sql, params)
            return
        with self._sending():  # with a BEGIN, if there is none yet
            self._cursor.execute(sql, params)

    def executemany(self, sql: str, params: Iterable[Sequence[Any]], /) -> None:
        self.send_waiting()
        with self._preparing():
            self._cursor.executemany(sql, params)

    def send_waiting(self, *, and_commit: bool = False) -> None:
        if _waiting.statements or and_commit:
            with self._sending():
                if and_commit:
                    self._cursor.execute("COMMIT", prepare=False)

    @contextmanager
    def _preparing(self) -> Generator[None, None, None]:
        """Lets psycopg prepare statements in this block. It would keep those of the ORM, too."""
        self._connection.prepare_threshold = self._prepared_after
        try:
            yield
        finally:
            self._connection.prepare_threshold = None

    @contextmanager
    def _sending(self) -> Generator[None, None, None]:
        """Runs what waits, and what this block adds, in one round trip."""
        waiting, _waiting.statements = _waiting.statements, []
        others = self._kind(self._connection)
        fetching: list[tuple[Any, Rows]] = []
        with self._connection.pipeline(), self._preparing():
            for sql, params, rows in waiting:
                if rows is None:
                    others.execute(sql, params)
                else:
                    fetching.append((self._kind(self._connection), rows))
                    fetching[-1][0].execute(sql, params)
            yield
        for cursor, rows in fetching:
            rows += cursor.fetchall()

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        return list(self._cursor.fetchall())

    def close(self) -> None:
        self._cursor.close()


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
