"""``manage.py web``: serves clients in the scaled shape; workers perform the runs."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from crushsite.exposure import check_host, ensure_local_token, require_sign_in
from crushsite.management.commands.serve import DEFAULT_HOST, run_server
from crushsite.registration import ProcessShape
from crushsite.storage import (
    ensure_data_dir,
    explained_start,
    require_migrated,
    require_scaled_settings,
)


class Command(BaseCommand):
    help = "Serves clients; needs PostgreSQL (DATABASE_URL), Redis (REDIS_URL) and runworker."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=DEFAULT_HOST, help="tcp://HOST:PORT or unix://PATH")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        require_scaled_settings()
        check_host(options["host"])
        folder = ensure_data_dir()
        require_migrated()
        with explained_start():
            require_sign_in(options["host"])
            ensure_local_token(folder)
        shape = ProcessShape(works=False, serves=True, is_alone=False)
        run_server(options["host"], shape, folder=folder)
