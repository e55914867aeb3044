"""Runs a test on both databases, SQLite and PostgreSQL, in one test process.

``use`` exchanges the settings of Django's default connection, so every connection that
opens then (this thread's, the writer's, the readers') goes to that database.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connection, connections
from pytest_django import DjangoDbBlocker

from crushsite import env
from tests.acceptance.harness.postgres import Postgres, postgres_binaries
from workspaces.log.reader import stop_reading

SQLITE = "sqlite"
POSTGRESQL = "postgresql"


class Database:
    """A migrated database, emptied for each test. Its commits are seen by other threads."""

    def __init__(self, url: str, blocker: DjangoDbBlocker) -> None:
        self._blocker = blocker
        # Django fills in the defaults of a connection's settings once, when it starts.
        defaults = connections.settings[DEFAULT_DB_ALIAS]
        self._settings: dict[str, Any] = defaults | env.database(url, folder=Path())
        with self._connected():
            call_command("migrate", verbosity=0)

    @contextmanager
    def use(self) -> Iterator[None]:
        with self._connected():
            _empty_all_tables()
            try:
                yield
            finally:
                stop_reading()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        before, own = connections.settings[DEFAULT_DB_ALIAS], connections[DEFAULT_DB_ALIAS]
        connections.settings[DEFAULT_DB_ALIAS] = self._settings
        del connections[DEFAULT_DB_ALIAS]
        try:
            with self._blocker.unblock():
                yield
        finally:
            connections[DEFAULT_DB_ALIAS].close()
            connections.settings[DEFAULT_DB_ALIAS] = before
            connections[DEFAULT_DB_ALIAS] = own


def _empty_all_tables() -> None:
    tables = [f'"{model._meta.db_table}"' for model in apps.get_models(include_auto_created=True)]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE")
            return
        with connection.constraint_checks_disabled():
            for table in tables:
                cursor.execute(f"DELETE FROM {table}")


class Databases:
    """Each database is made for the first test that asks for it."""

    def __init__(self, folder: Callable[[str], Path], blocker: DjangoDbBlocker) -> None:
        self._folder = folder
        self._blocker = blocker
        self._made: dict[str, Database] = {}
        self._cluster: Postgres | None = None

    def get(self, name: str) -> Database:
        if name not in self._made:
            url = self._postgres_url() if name == POSTGRESQL else self._sqlite_url()
            self._made[name] = Database(url, self._blocker)
        return self._made[name]

    def _sqlite_url(self) -> str:
        return f"sqlite://{self._folder('sqlite') / 'test.sqlite3'}"

    def _postgres_url(self) -> str:
        if postgres_binaries() is None:
            reason = "this test needs PostgreSQL: install the package postgresql"
            (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
        self._cluster = Postgres(self._folder("postgres"))
        self._cluster.start()
        return self._cluster.url(self._cluster.create_database())

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
