"""``manage.py doctor``: is everything here as the server needs it?"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from crushsite.diagnosis import Level, diagnose, mark
from crushsite.tables import aligned


class Command(BaseCommand):
    help = (
        "Looks at Python, data, database, running server and configuration; exits 1 on a failure."
    )
    requires_system_checks = ()  # they are a part of what is told

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--path", default=".", help="the folder whose configuration to look at (default: this)"
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        path = os.path.realpath(Path(options["path"]).expanduser())
        findings = list(diagnose(path))
        rows = [[mark(finding.level), finding.what, finding.said] for finding in findings]
        self.stdout.write(aligned(["", "what", "found"], rows))
        failures = sum(finding.level is Level.FAIL for finding in findings)
        if failures:
            raise CommandError(f"{failures} of these must be mended.")
