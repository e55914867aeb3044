"""``manage.py doctor``: is everything here as the server needs it?"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite.cli.diagnosis import diagnose
from crushsite.cli.findings import Level, mark
from crushsite.cli.tables import aligned


class Command(BaseCommand):
    help = (
        "Looks at Python, data and database, and asks the running server for configuration and"
        " model, with one small request to its provider; exits 1 on a failure."
    )
    requires_system_checks = ()  # they are a part of what is told

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--offline", action="store_true", help="send no request to the model's provider"
        )
        parser.add_argument(
            "--path", default=".", help="the folder whose configuration to look at (default: this)"
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        path = os.path.realpath(Path(options["path"]).expanduser())
        findings = list(diagnose(path, asks_model=not options["offline"]))
        rows = [[mark(finding.level), finding.what, finding.said] for finding in findings]
        self.stdout.write(aligned(["", "what", "found"], rows))
        failures = sum(finding.level is Level.FAIL for finding in findings)
        if failures:
            raise CommandError(f"{failures} problem{'' if failures == 1 else 's'} found.")
