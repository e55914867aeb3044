"""Whether the database is there and of this version, for commands that only look or act once."""

from __future__ import annotations

from django.core.management import CommandError
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from crushsite.cli.naming import command_line


def unapplied_migrations() -> int:
    """Raises ``OperationalError`` when the database cannot be reached."""
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def require_database() -> None:
    """Raises ``CommandError`` with what to do."""
    try:
        missing = unapplied_migrations()
    except OperationalError as error:
        raise CommandError(
            f"The database cannot be opened ({error}). Nothing was stored yet, or CRUSH_DATA_DIR or"
            f" DATABASE_URL names another place: start the server once with {command_line('serve')}."
        ) from error
    if missing:
        raise CommandError(
            "The database is of another version: start the server once, or run"
            f" `{command_line('migrate')}`."
        )
