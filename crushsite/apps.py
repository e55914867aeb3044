"""Django's entry: the app, and the checks of settings that `check` and `doctor` run."""

from __future__ import annotations

import logging
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.db import connections
from django.db.models.signals import pre_migrate
from typing_extensions import override

TAG = "crushsite"  # of our checks
SHORTEST_KEY = 32


class CrushsiteConfig(AppConfig):
    name = "crushsite"
    verbose_name = "Server"

    @override
    def ready(self) -> None:
        pre_migrate.connect(lift_session_limits, dispatch_uid="lift_session_limits")


def lift_session_limits(*, using: str, **_: Any) -> None:
    """Removes timeouts: a migration may wait for locks, and be idle between two statements."""
    connection = connections[using]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")
            cursor.execute("SET idle_in_transaction_session_timeout = 0")


@register(TAG)
def check_shape(**_: object) -> list[CheckMessage]:
    """Rejects several processes on SQLite, whose writers would not be coordinated."""
    is_sqlite = settings.DATABASES["default"]["ENGINE"].endswith("sqlite3")
    if settings.REDIS_URL and is_sqlite:
        return [
            Error(
                "REDIS_URL is set, which is for several processes, but the database is SQLite,"
                " which only one process can use.",
                hint="Set DATABASE_URL=postgres://…, or unset REDIS_URL.",
                id="crushsite.E001",
            )
        ]
    return []


@register(TAG)
def check_values(**_: object) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    if settings.CRUSH_LOG_LEVEL not in logging.getLevelNamesMapping():
        found.append(
            Error(
                f"CRUSH_LOG_LEVEL is {settings.CRUSH_LOG_LEVEL!r}, which is not a log level.",
                hint="Use DEBUG, INFO, WARNING or ERROR.",
                id="crushsite.E002",
            )
        )
    if 2 * max(settings.CRUSH_POLL_SECONDS, 1.0) > settings.CRUSH_LEASE_SECONDS:
        found.append(
            Warning(
                f"CRUSH_LEASE is {settings.CRUSH_LEASE_SECONDS:g} s: a worker that is busy for a"
                " moment loses its runs.",
                hint="Set it to at least twice CRUSH_POLL, and to at least 2 s.",
                id="crushsite.W001",
            )
        )
    if settings.CRUSH_POLL_SECONDS < 0.05:
        found.append(
            Warning(
                f"CRUSH_POLL is {settings.CRUSH_POLL_SECONDS:g} s: idle workers query the database all the time.",
                hint="Set it to 1 s: workers are notified of new runs anyway.",
                id="crushsite.W002",
            )
        )
    if settings.CRUSH_GATES:
        found.append(
            Warning(
                "CRUSH_GATES is set: anyone who can write to that folder can hold runs.",
                hint="Unset it: only tests need it.",
                id="crushsite.W003",
            )
        )
    return found


@register(TAG, deploy=True)
def check_signing_key(**_: object) -> list[CheckMessage]:
    if len(str(settings.SECRET_KEY)) < SHORTEST_KEY:
        return [
            Warning(
                f"CRUSH_SECRET_KEY has fewer than {SHORTEST_KEY} characters, so it can be guessed.",
                hint=f"Set {SHORTEST_KEY} random characters, or unset it: the server then creates a key.",
                id="crushsite.W004",
            )
        ]
    return []
