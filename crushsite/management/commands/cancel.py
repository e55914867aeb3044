"""``manage.py cancel``: ends what runs and waits in a session."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from agents.models import Run, RunState
from crushsite.cli.stored_sessions import NotFound, cancel_wherever_it_runs, find_stored
from crushsite.database import require_database


class Command(BaseCommand):
    help = "Cancels everything that was accepted in a session until now."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("session", help="the session's id, or the beginning of it")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        require_database()
        try:
            session = find_stored(options["session"])
        except NotFound as error:
            raise CommandError(str(error)) from error
        count = Run.objects.filter(session_id=session.id).exclude(state=RunState.FINISHED).count()
        here = cancel_wherever_it_runs(session.workspace_id, session.id)
        count = count if here is None else here
        if not count:
            self.stdout.write("Nothing was running or waiting.")
        else:
            self.stdout.write(f"Cancelled {count} prompt{'' if count == 1 else 's'}.")
