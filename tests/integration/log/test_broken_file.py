"""SQLite's file is none: whoever writes is told at once, since no waiting cures it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections

from tests.integration.databases import SQLITE, Databases
from tests.integration.log.writing import NewWriter, start


@pytest.fixture
def database(databases: Databases, tmp_path: Path) -> Iterator[str]:
    with databases.get(SQLITE).use():
        before = connections.settings[DEFAULT_DB_ALIAS]
        path = tmp_path / "server.sqlite3"
        path.write_bytes(b"no database " * 1_000)
        connections.settings[DEFAULT_DB_ALIAS] = {**before, "NAME": str(path)}
        yield SQLITE
        connections.settings[DEFAULT_DB_ALIAS] = before


async def test_a_file_that_is_no_database_is_told_at_once(
    new_writer: NewWriter, caplog: pytest.LogCaptureFixture
) -> None:
    writer = start(new_writer)

    async with asyncio.timeout(60):
        with pytest.raises(DatabaseError, match="not a database"):
            await writer.write("", lambda tx: None)

    assert "a write failed" in caplog.text
