"""Django's ``createsuperuser``, on a data folder that may not exist yet."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from typing_extensions import override

from crushsite.cli.stored_people import refuse_tools
from crushsite.storage import ensure_database


class Command(createsuperuser.Command):
    help = "Makes an account for /admin; the server need not have run before."

    @override
    def execute(self, *args: Any, **options: Any) -> str | None:
        refuse_tools()
        ensure_database()
        return super().execute(*args, **options)
