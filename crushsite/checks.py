"""Django's system checks of our settings: ``manage.py check`` and ``manage.py doctor`` run them."""

from __future__ import annotations

import logging

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register

TAG = "crushsite"
SHORTEST_KEY = 32


@register(TAG)
def check_shape(**_: object) -> list[CheckMessage]:
    """Several processes on SQLite would each have a writer, and none would hear of the others."""
    is_sqlite = settings.DATABASES["default"]["ENGINE"].endswith("sqlite3")
    if settings.REDIS_URL and is_sqlite:
        return [
            Error(
                "REDIS_URL is set, so several processes are meant to work together, but the"
                " database is SQLite, which only one of them can write.",
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
                hint="Give it at least twice CRUSH_POLL, and 2 s.",
                id="crushsite.W001",
            )
        )
    if settings.CRUSH_POLL_SECONDS < 0.05:
        found.append(
            Warning(
                "CRUSH_POLL is so short that idle workers query the database all the time.",
                hint="Leave it at 1 s: workers are notified of new runs anyway.",
                id="crushsite.W002",
            )
        )
    if settings.CRUSH_GATES:
        found.append(
            Warning(
                "CRUSH_GATES is set: anyone who can write to that folder can hold runs.",
                hint="It is a seam for tests; unset it.",
                id="crushsite.W003",
            )
        )
    return found


@register(TAG, deploy=True)
def check_signing_key(**_: object) -> list[CheckMessage]:
    if len(str(settings.SECRET_KEY)) < SHORTEST_KEY:
        return [
            Warning(
                "CRUSH_SECRET_KEY is short enough to be guessed.",
                hint=f"Give it {SHORTEST_KEY} random characters, or unset it: one is then made.",
                id="crushsite.W004",
            )
        ]
    return []
