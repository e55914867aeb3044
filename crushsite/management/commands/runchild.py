"""``manage.py runchild`` where Django is loaded already: restarts without it.

``manage.py`` itself never comes here: it starts a child before it reads settings.
This command is what ``help`` lists and what ``django-admin`` finds.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from crushsite.child.main import add_arguments
from crushsite.program_name import restart


class Command(BaseCommand):
    help = "Runs a sub-agent for a parent process over a WebSocket; reads its settings from a document on standard input."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        restart("runchild", sys.argv[sys.argv.index("runchild") + 1 :])
