"""``manage.py logout``: removes the stored token for a server."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite.cli.servers import checked_url, remove_login
from crushsite.program_name import command_line


class Command(BaseCommand):
    help = "Removes the token that `login` has stored. The token stays valid until it is revoked."
    examples = ("logout https://crush.example.com",)
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", help="the server's address, as `servers` lists it")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        url = checked_url(options["url"])
        if not remove_login(url):
            raise CommandError(f"There is no login for {url}: see `{command_line('servers')}`.")
        self.stdout.write(f"Logged out of {url}.")
