"""Which database errors waiting cures, and what a client is answered."""

import sqlite3

import psycopg
import pytest
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from workspaces.log.failures import Failure, failure_of, refusal_of


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
        (wrapped(psycopg.OperationalError("server closed the connection")), Failure.UNREACHABLE),
        (wrapped(psycopg.InterfaceError("closed"), InterfaceError), Failure.UNREACHABLE),
        (wrapped(psycopg.errors.ConnectionTimeout("slow")), Failure.UNREACHABLE),
        (wrapped(psycopg.errors.AdminShutdown("x")), Failure.UNREACHABLE),
        (wrapped(psycopg.errors.CannotConnectNow("x")), Failure.UNREACHABLE),
        (wrapped(psycopg.errors.IdleInTransactionSessionTimeout("x")), Failure.UNREACHABLE),
        (wrapped(psycopg.errors.TooManyConnections("x")), Failure.UNREACHABLE),
        (wrapped(psycopg.errors.ConnectionFailure("x")), Failure.UNREACHABLE),
        (wrapped(psycopg.errors.LockNotAvailable("x")), Failure.LOCKED),
        (wrapped(psycopg.errors.DeadlockDetected("x")), Failure.LOCKED),
        (wrapped(psycopg.errors.DiskFull("x")), Failure.FULL),
        (wrapped(psycopg.errors.UniqueViolation("x"), DatabaseError), Failure.OTHER),
        (wrapped(psycopg.DataError("x"), DatabaseError), Failure.OTHER),
        (of_sqlite(5), Failure.LOCKED),
        (of_sqlite(5 | 1 << 8), Failure.LOCKED),
        (of_sqlite(13), Failure.FULL),
        (of_sqlite(14), Failure.UNREACHABLE),
        (of_sqlite(11), Failure.OTHER),
        (OperationalError("database is locked"), Failure.LOCKED),
        (OperationalError("no such table"), Failure.OTHER),
        (ValueError("database is locked"), Failure.OTHER),
    ],
)
def test_errors_are_sorted(error: Exception, expected: Failure) -> None:
    assert failure_of(error) is expected


@pytest.mark.parametrize(
    ("failure", "status", "retry_after"),
    [
        (Failure.UNREACHABLE, 503, [(b"retry-after", b"2")]),
        (Failure.LOCKED, 503, [(b"retry-after", b"2")]),
        (Failure.FULL, 507, []),
    ],
)
def test_clients_get_a_status_and_a_sentence(
    failure: Failure, status: int, retry_after: list[tuple[bytes, bytes]]
) -> None:
    refusal = refusal_of(failure)
    assert refusal is not None
    assert refusal.status == status
    assert refusal.sentence.endswith(".")
    assert refusal.headers == retry_after


def test_a_mistake_of_ours_has_no_answer_of_its_own() -> None:
    assert refusal_of(Failure.OTHER) is None


@pytest.mark.parametrize(
    ("folder", "code", "expected"),
    [
        ("/proc", 10, Failure.FULL),  # it has no room at all
        ("/proc", 11, Failure.OTHER),
        ("/", 10, Failure.OTHER),
        ("/nowhere", 10, Failure.OTHER),
    ],
)
def test_an_input_error_means_a_full_disk_where_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch, folder: str, code: int, expected: Failure
) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", f"{folder}/server.sqlite3")
    assert failure_of(of_sqlite(code)) is expected
