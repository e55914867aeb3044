"""Follows the clock of a database that several hosts share, so that their own clocks do not matter."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection

from workspaces.log.outage import outage
from workspaces.log.reader import read
from workspaces.log.statements import statements
from workspaces.log.timestamps import CLOCK

COMPARE_SECONDS = 2.0
_NOW = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint"


class _Reading(NamedTuple):
    database_ns: int
    before_ns: int
    after_ns: int


async def compare_clocks() -> None:
    """Compares this process's clock with the database's once. SQLite has the clock of this host."""
    if connection.vendor == "postgresql":
        found = await read(_read_clock)
        CLOCK.adjust(found.database_ns, before_ns=found.before_ns, after_ns=found.after_ns)


def were_renewals_lost(seconds: float) -> bool:
    """Whether live processes may not have renewed their leases and claims in the last ``seconds``.

    They could not while the database was away, and after its clock was set they have not yet.
    """
    return outage.is_recent(seconds) or CLOCK.has_stepped_within(seconds)


def _read_clock() -> _Reading:
    with statements() as cursor:
        before = CLOCK.steady_ns()
        cursor.execute(_NOW, [])
        row = cursor.fetchone()
        after = CLOCK.steady_ns()
    assert row is not None  # noqa: S101  the statement has one row
    return _Reading(row[0] * 1000, before, after)
