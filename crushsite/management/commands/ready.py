"""``manage.py ready``: whether a process of the server can do its work, for service managers."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite.cli.exit_codes import Exit
from crushsite.cli.servers import add_server_options, chosen_login
from crushsite.program_name import command_line
from crushsite.server_client import RunningServer, ServerGone, ServerRefused, named_server

PATH = "/readyz"
REQUEST_SECONDS = 5.0  # longer than the checks take
POLL_SECONDS = 0.2


class NoServerHere(CommandError):
    def __init__(self) -> None:
        super().__init__(
            f"No server runs here: start `{command_line('serve')}`.", returncode=Exit.UNREACHABLE
        )


class Command(BaseCommand):
    help = "Succeeds if a process of the server is ready; otherwise names the checks that fail."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--wait",
            type=float,
            default=0.0,
            metavar="SECONDS",
            help="how long to wait until it is ready (default: not at all)",
        )
        add_server_options(parser)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        until = time.monotonic() + options["wait"]
        while True:
            try:
                _server(options).call("GET", PATH, timeout=REQUEST_SECONDS)
            except ServerRefused as refusal:
                failure = CommandError(refusal.sentence)
            except ServerGone as error:
                sentence = f"The server cannot be reached: {error}."
                failure = CommandError(sentence, returncode=Exit.UNREACHABLE)
            except NoServerHere as error:
                failure = error
            else:
                self.stdout.write("ready")
                return
            if time.monotonic() >= until:
                raise failure
            time.sleep(POLL_SECONDS)


def _server(options: dict[str, Any]) -> RunningServer:
    login = chosen_login(options)
    if login is not None:
        return login.as_server()
    server = named_server(settings.DATA_DIR)
    if server is None:
        raise NoServerHere
    return server
