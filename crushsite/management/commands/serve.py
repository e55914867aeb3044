"""``manage.py serve``: the embedded shape, everything in one process."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from agents.config.providers.built_in import is_installed
from crushsite.data_folder import ensure_data_dir, sole_server
from crushsite.database import ensure_migrated
from crushsite.process import ProcessShape
from crushsite.program_name import command_line
from crushsite.serve import DEFAULT_HOST, check_host, run_server


class Command(BaseCommand):
    help = "Serves clients and runs their agents in this one process, on SQLite or PostgreSQL."
    requires_system_checks = ()  # a start is quick; `check` and `doctor` look closer

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--host",
            default=DEFAULT_HOST,
            help="tcp://HOST:PORT (loopback; port 0 takes a free one) or unix://PATH",
        )
        parser.add_argument(
            "--idle-exit",
            action="store_true",
            help="stop when the last workspace has been gone for CRUSH_SERVER_IDLE_TIMEOUT seconds",
        )
        parser.add_argument(
            "--local-model",
            action="store_true",
            help="work with a small model in this process where no other is configured; "
            "bin/serve installs it",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if settings.REDIS_URL:
            raise CommandError(
                f"REDIS_URL is set: that is the scaled shape. Run `{command_line('web')}` and "
                f"`{command_line('runworker')}`, or unset it."
            )
        if options["local_model"]:
            if not is_installed():
                raise CommandError(
                    "The local model is not installed. Start with `bin/serve --local-model`."
                )
            os.environ["CRUSH_LOCAL_MODEL"] = "1"
        check_host(options["host"])
        folder = ensure_data_dir()
        with sole_server(folder):
            ensure_migrated()
            shape = ProcessShape(
                works=True, serves=True, is_alone=True, exits_idle=options["idle_exit"]
            )
            run_server(options["host"], shape, folder=folder)
