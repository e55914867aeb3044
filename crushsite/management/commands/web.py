"""``manage.py web``: clients' side of the scaled shape; runs are worked on elsewhere."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from crushsite.data_folder import ensure_data_dir
from crushsite.database import require_scaled_settings
from crushsite.process import ProcessShape
from crushsite.serve import DEFAULT_HOST, check_host, run_server


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
        shape = ProcessShape(works=False, serves=True, is_alone=False)
        run_server(options["host"], shape, folder=folder)
