"""``manage.py servers``: lists the local server and the logins."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import orjson
from django.conf import settings
from django.core.management.base import BaseCommand
from typing_extensions import override

from crushsite.cli.servers import chosen_login, stored_logins
from crushsite.cli.terminal import aligned
from crushsite.program_name import command_line
from crushsite.server_client import find_running_server


class Command(BaseCommand):
    help = "Lists the server on this machine and those of `login`; * marks the one in use."
    examples = ("servers", "servers --json")
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print a JSON array")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        chosen = chosen_login({})
        local = find_running_server(settings.DATA_DIR)
        rows: list[dict[str, Any]] = [
            {
                "url": "" if local is None else local.url,
                "kind": "local",
                "is_running": local is not None,
                "is_used": chosen is None,
            }
        ]
        logins = stored_logins()
        if chosen is not None and chosen.url not in {login.url for login in logins}:
            logins.append(chosen)
        rows += [
            {
                "url": login.url,
                "kind": "login" if login.token else "named",
                "is_running": None,  # only a request shows it
                "is_used": chosen is not None and chosen.url == login.url,
            }
            for login in logins
        ]
        if options["json"]:
            self.stdout.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
            return
        shown = [
            [
                "*" if row["is_used"] else "",
                row["url"] or f"not running; `{command_line('serve')}` starts it",
                row["kind"],
            ]
            for row in rows
        ]
        self.stdout.write(aligned(["", "server", "kind"], shown))
