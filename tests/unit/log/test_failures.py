"""Which database errors waiting cures, and what a client is answered."""

import sqlite3

import psycopg
import pytest
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from workspaces.log.failures import DatabaseFailure, failure_of, refusal_of


def wrapped(cause: BaseException, kind: type[Exception] = OperationalError) -> Exception:
    """As Django raises it."""
    error = kind(*cause.args)
    error.__cause__ = cause
    return error


def of_sqlite(code: int) -> Exception:
    cause = sqlite3.OperationalError("some words")
    cause.sqlite_errorcode = code
    return wrapped(cause)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            wrapped(psycopg.OperationalError("server closed the connection")),
            DatabaseFailure.UNREACHABLE,
        ),
        (wrapped(psycopg.InterfaceError("closed"), InterfaceError), DatabaseFailure.UNREACHABLE),
        (wrapped(psycopg.errors.ConnectionTimeout("slow")), DatabaseFailure.UNREACHABLE),
        (wrapped(psycopg.errors.AdminShutdown("x")), DatabaseFailure.UNREACHABLE),
        (wrapped(psycopg.errors.CannotConnectNow("x")), DatabaseFailure.UNREACHABLE),
        (wrapped(psycopg.errors.IdleInTransactionSessionTimeout("x")), DatabaseFailure.UNREACHABLE),
        (wrapped(psycopg.errors.TooManyConnections("x")), DatabaseFailure.UNREACHABLE),
        (wrapped(psycopg.errors.ConnectionFailure("x")), DatabaseFailure.UNREACHABLE),
        (wrapped(psycopg.errors.LockNotAvailable("x")), DatabaseFailure.LOCKED),
        (wrapped(psycopg.errors.DeadlockDetected("x")), DatabaseFailure.LOCKED),
        (wrapped(psycopg.errors.DiskFull("x")), DatabaseFailure.FULL),
        (wrapped(psycopg.errors.UniqueViolation("x"), DatabaseError), DatabaseFailure.OTHER),
        (wrapped(psycopg.DataError("x"), DatabaseError), DatabaseFailure.OTHER),
        (of_sqlite(5), DatabaseFailure.LOCKED),
        (of_sqlite(5 | 1 << 8), DatabaseFailure.LOCKED),
        (of_sqlite(13), DatabaseFailure.FULL),
        (of_sqlite(14), DatabaseFailure.UNREACHABLE),
        (of_sqlite(11), DatabaseFailure.OTHER),
        (OperationalError("database is locked"), DatabaseFailure.LOCKED),
        (OperationalError("no such table"), DatabaseFailure.OTHER),
        (ValueError("database is locked"), DatabaseFailure.OTHER),
    ],
)
def test_errors_are_sorted(error: Exception, expected: DatabaseFailure) -> None:
    assert failure_of(error) is expected


@pytest.mark.parametrize(
    ("failure", "status", "retry_after"),
    [
        (DatabaseFailure.UNREACHABLE, 503, [(b"retry-after", b"2")]),
        (DatabaseFailure.LOCKED, 503, [(b"retry-after", b"2")]),
        (DatabaseFailure.FULL, 507, []),
    ],
)
def test_clients_get_a_status_and_a_sentence(
    failure: DatabaseFailure, status: int, retry_after: list[tuple[bytes, bytes]]
) -> None:
    refusal = refusal_of(failure)
    assert refusal is not None
    assert refusal.status == status
    assert refusal.sentence.endswith(".")
    assert refusal.headers == retry_after


def test_a_mistake_of_ours_has_no_answer_of_its_own() -> None:
    assert refusal_of(DatabaseFailure.OTHER) is None


@pytest.mark.parametrize(
    ("folder", "code", "expected"),
    [
        ("/proc", 10, DatabaseFailure.FULL),  # it has no room at all
        ("/proc", 11, DatabaseFailure.OTHER),
        ("/", 10, DatabaseFailure.OTHER),
        ("/nowhere", 10, DatabaseFailure.OTHER),
    ],
)
def test_an_input_error_means_a_full_disk_where_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch, folder: str, code: int, expected: DatabaseFailure
) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", f"{folder}/server.sqlite3")
    assert failure_of(of_sqlite(code)) is expected
