"""``manage.py migrate``: Django's, which would do nothing to a database of a newer version."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS
from typing_extensions import override

from crushsite.storage import explained_start, migration_state, refuse_newer


class Command(migrate.Command):
    help = "Brings the database to this version. serve does it by itself; web and runworker do not."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["database"] == DEFAULT_DB_ALIAS:
            with explained_start():
                refuse_newer(migration_state())
        super().handle(*args, **options)
