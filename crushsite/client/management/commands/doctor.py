"""``manage.py doctor``: checks whether everything is as the server needs it."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite.cli.diagnosis import diagnose
from crushsite.cli.servers import ServerLogin, add_server_options, chosen_login
from crushsite.cli.terminal import aligned
from crushsite.client.finding import folder_of
from crushsite.client.progress import progress
from crushsite.client.screen import size_of_terminal
from crushsite.monitoring.findings import Finding

NARROWEST = 20


class Command(BaseCommand):
    help = (
        "Checks Python, the data folder, the database, the configuration and the models. Sends one"
        " small request to the model's provider. With --server it checks the connection to that"
        " server instead: certificate, version, clock, token, rights, streams. Exits 1 if a check"
        " fails."
    )
    examples = (
        "doctor",
        "doctor --offline --path ~/project",
        "doctor --server https://crush.example.com",
    )
    requires_system_checks = ()  # they are a part of the report

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--offline", action="store_true", help="send no request to the model's provider"
        )
        parser.add_argument(
            "--path",
            help="the folder whose configuration to check (default: this one; with --server none)",
        )
        add_server_options(parser)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        login, path, asks_model = chosen_login(options), options["path"], not options["offline"]
        with progress("Checking"):
            if login is None:
                folder = os.path.realpath(Path(path or ".").expanduser())
                findings = list(diagnose(folder, asks_model=asks_model))
            else:
                there = None if path is None else folder_of(path, options)
                findings = asyncio.run(_findings(login, there, asks_model=asks_model))
        rows = [[finding.level, finding.what, finding.text] for finding in findings]
        self.stdout.write(_wrapped(aligned(["", "what", "found"], rows)))
        failures = sum(finding.is_failure for finding in findings)
        if failures:
            raise CommandError(f"{failures} problem{'' if failures == 1 else 's'} found.")


def _wrapped(table: str) -> str:
    """The table with its last column in as many lines as the terminal needs."""
    if not sys.stdout.isatty():
        return table
    width, _ = size_of_terminal()
    heading, *_ = lines = table.split("\n")
    indent = heading.index("found")
    room = max(width - indent - 1, NARROWEST)
    below = f"\n{' ' * indent}"
    return "\n".join(
        line[:indent]
        + below.join(textwrap.wrap(line[indent:], room, break_on_hyphens=False) or [""])
        for line in lines
    )


async def _findings(login: ServerLogin, path: str | None, *, asks_model: bool) -> list[Finding]:
    from crushsite.client.remote_diagnosis import diagnose_server  # noqa: PLC0415  only here

    return [finding async for finding in diagnose_server(login, path, asks_model=asks_model)]
