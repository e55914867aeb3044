"""Several reads at one moment: they see the same commits, and hold nobody up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

_BEGIN = {
    # Not ``atomic``: on SQLite it begins IMMEDIATE, which takes the one place of the writer.
    "sqlite": "BEGIN DEFERRED",
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}


@contextmanager
def one_moment() -> Iterator[None]:
    """Only in a reading thread, where no other transaction is open."""
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN[connection.vendor])
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")
