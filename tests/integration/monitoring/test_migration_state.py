"""A database of another version is recognised, on both databases."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from crushsite.storage import (
    ensure_migrated,
    migration_state,
    require_database,
    require_migrated,
)


@contextmanager
def recorded(app: str, name: str) -> Iterator[None]:
    MigrationRecorder(connection).record_applied(app, name)
    try:
        yield
    finally:
        MigrationRecorder(connection).record_unapplied(app, name)


@contextmanager
def unrecorded(app: str, name: str) -> Iterator[None]:
    MigrationRecorder(connection).record_unapplied(app, name)
    try:
        yield
    finally:
        MigrationRecorder(connection).record_applied(app, name)


def newest_of(app: str) -> str:
    applied = MigrationRecorder(connection).applied_migrations()
    return max(name for label, name in applied if label == app)


def migrate() -> None:
    call_command("migrate", verbosity=0, interactive=False)


def test_a_current_database_is_accepted(database: str) -> None:
    state = migration_state()
    assert (state.missing, state.newer) == (0, ())
    require_migrated()
    require_database()


def test_a_missing_migration_is_counted(database: str) -> None:
    with unrecorded("notifications", newest_of("notifications")):
        assert migration_state().missing == 1
        with pytest.raises(CommandError) as refused:
            require_migrated()
        assert "lacks 1 migration of this version" in str(refused.value)
        assert "migrate`" in str(refused.value)


def test_a_newer_database_is_refused_by_all_that_use_it(database: str) -> None:
    with recorded("agents", "9999_later"):
        assert migration_state().newer == ("agents.9999_later",)
        for require in (require_migrated, require_database, ensure_migrated, migrate):
            with pytest.raises(CommandError) as refused:
                require()
            assert "newer version" in str(refused.value)
            assert "agents.9999_later" in str(refused.value)


def test_migrations_of_an_app_that_is_not_installed_are_no_newer_version(database: str) -> None:
    with recorded("mfa", "0003_authenticator"):
        assert migration_state().newer == ()
