"""``manage.py login-link``: prints a link that signs a browser in, once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite.cli.stored_people import (
    browser_url,
    command_actor,
    login_link,
    prepare_database,
    qr_code,
    refuse_tools,
    stored_user,
)
from crushsite.program_name import command_line
from crushsite.server_client import find_running_server
from people.actions.audit import Act, record
from people.actions.login_links import create_login_link
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer


class Command(BaseCommand):
    help = "Prints a link that signs a browser in, once, within ten minutes."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--user", default="", help="whom it signs in (default: the server's owner)"
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        refuse_tools()
        server = find_running_server(settings.DATA_DIR)
        if server is None:
            raise CommandError(f"No server runs here: start it with `{command_line('serve')}`.")
        base = browser_url(server.url)
        if base is None:
            raise CommandError(
                f"The server listens on {server.url}, which browsers cannot open. Start it with"
                " --host tcp://127.0.0.1:PORT."
            )
        prepare_database()
        user = stored_user(options["user"])
        if not user.is_active:
            raise CommandError(
                f"{user} is disabled: run `{command_line(f'user enable {user}')}` first."
            )

        def create(tx: Transaction) -> str:
            record(tx, command_actor(), Act.CREATE_LOGIN_LINK, target=user.get_username())
            return create_login_link(user)

        link = login_link(base, writer.write_and_wait("", create))
        self.stdout.write(link)
        if code := qr_code(link):
            self.stderr.write(code)
