"""What several processes need: a database and a channel layer that they can share."""

from __future__ import annotations

from django.conf import settings
from django.core.management import CommandError
from django.db import connection

from crushsite.cli.naming import command_line


def require_scaled_settings() -> None:
    """Refuses several processes on SQLite or without Redis, with what to do."""
    if connection.vendor == "sqlite":
        raise CommandError(
            "Several processes cannot share SQLite: set DATABASE_URL=postgres://…, or run "
            f"`{command_line('serve')}`, which does everything in one process."
        )
    if not settings.REDIS_URL:
        raise CommandError(
            "Several processes hear of each other through Redis: set REDIS_URL=redis://…, or run "
            f"`{command_line('serve')}`."
        )
