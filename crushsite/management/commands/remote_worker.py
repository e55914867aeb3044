"""``manage.py remote-worker`` where Django is loaded already: restarts without it.

``crush-server`` itself never comes here: it starts a remote worker before it reads settings. This
command is what ``help`` lists and what ``django-admin`` finds.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from crushsite.cli.remote_worker import add_arguments
from crushsite.program_name import restart


class Command(BaseCommand):
    help = "Joins a server on another machine, and performs the prompts of its workspaces NAME:ROOT in folders of this one."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        restart("remote-worker", sys.argv[2:])
