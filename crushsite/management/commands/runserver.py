"""``manage.py runserver``: the server itself at the address that Django's command would use."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from typing_extensions import override

from crushsite.management.commands.serve import Command as Serve

DEFAULT_PORT = 8000
_ADDRESS = re.compile(r"(?:(?P<host>\[[^\]]+\]|[^:]+):)?(?P<port>\d+)")
# Of Django's command; there is nothing to switch off here.
_IGNORED = ("--noreload", "--nothreading", "--nostatic", "--insecure")


class Command(Serve):
    help = (
        "Serves as `serve` does, with the same checks of Host and Origin, on port 8000."
        " Does not reload: restart it after a change."
    )
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "addrport", nargs="?", help="PORT or ADDRESS:PORT (loopback), 127.0.0.1:8000 by default"
        )
        parser.add_argument("-6", "--ipv6", action="store_true", help="use [::1]")
        for name in _IGNORED:
            parser.add_argument(name, action="store_true", help="accepted and ignored")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        host = "[::1]" if options["ipv6"] else "127.0.0.1"
        found = _ADDRESS.fullmatch(options["addrport"] or str(DEFAULT_PORT))
        if found is None:
            raise CommandError(f"{options['addrport']!r} is not PORT or ADDRESS:PORT.")
        address = f"tcp://{found['host'] or host}:{found['port']}"
        if settings.REDIS_URL:
            call_command("web", host=address)
        else:
            super().handle(host=address, idle_exit=False, local_model=False)
