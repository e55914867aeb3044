"""``manage.py secret-key``: whether the data folder has the key of the database's secrets."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction
from typing_extensions import override

from crushsite.cli.stored_people import refuse_tools
from crushsite.known_key import accept_key, key_problem
from crushsite.monitoring.processes import UNSEEN, processes
from crushsite.storage import explained_start, require_database, sole_server
from workspaces.log.secrets import SecretBox, SecretsUnavailable, box


class Command(BaseCommand):
    help = (
        "Checks that the data folder has the key of the database's secrets. With --accept, the"
        " database takes the key that is there."
    )
    examples = ("secret-key", "secret-key --accept --former old.key")
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--accept",
            action="store_true",
            help="use the key of the data folder, or a new one, from now on",
        )
        parser.add_argument(
            "--former", metavar="FILE", help="with --accept: encrypt its secrets with the new key"
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        refuse_tools()
        require_database()
        if options["former"] and not options["accept"]:
            raise CommandError("--former needs --accept.")
        try:
            if options["accept"]:
                self._accept(options["former"])
            elif problem := key_problem():
                raise CommandError(problem)
        except SecretsUnavailable as error:
            raise CommandError(error.sentence) from error
        self.stdout.write("The data folder has the key of the database's secrets.")

    def _accept(self, former: str | None) -> None:
        folder = settings.DATA_DIR
        with sole_server(folder), explained_start(), transaction.atomic():
            running = [each for each in processes((), folder=folder) if each.database != UNSEEN]
            if running and connection.vendor != "sqlite":
                raise CommandError("Stop all processes of the server first.")
            if former is not None:
                if not Path(former).exists():
                    raise CommandError(f"{former} does not exist.")
                self.stdout.write(f"{_encrypt_again(SecretBox(Path(former)))} secrets encrypted.")
            accept_key()


def _encrypt_again(former: SecretBox) -> int:
    count = 0
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if not field.name.startswith("sealed"):
                continue
            rows = model._default_manager
            for key, sealed in rows.exclude(**{field.name: ""}).values_list("pk", field.name):
                again = box().seal(former.open(sealed))
                count += rows.filter(pk=key).update(**{field.name: again})
    return count
