"""Django's ``createsuperuser``, on a data folder that may not exist yet."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from typing_extensions import override

from crushsite.data_folder import ensure_data_dir, sole_server
from crushsite.database import ensure_migrated, unapplied_migrations


class Command(createsuperuser.Command):
    help = "Makes an account for /admin; the server need not have run before."

    @override
    def execute(self, *args: Any, **options: Any) -> str | None:
        folder = ensure_data_dir()
        if unapplied_migrations():
            with sole_server(folder):  # nothing changes under a server of another version
                ensure_migrated()
        return super().execute(*args, **options)
