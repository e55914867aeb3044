"""``manage.py cancel``: ends what runs and waits in a session."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from agents.actions.blocking import cancel_and_wait
from agents.models import Run, RunState
from crushsite.own_database import require_database
from crushsite.running_server import (
    RunningServer,
    ServerGone,
    ServerRefused,
    find_running_server,
    in_path,
)
from crushsite.stored_sessions import NotFound, StoredSession, find_stored
from workspaces.storage.errors import Refusal

NOT_FOUND = 404


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
        server = find_running_server(settings.DATA_DIR)
        if server is None or not _cancelled_by(server, session):
            try:
                count = cancel_and_wait(session.workspace_id, session.id)
            except Refusal as refusal:
                raise CommandError(refusal.sentence) from refusal
        if not count:
            self.stdout.write("Nothing was running or waiting.")
        else:
            self.stdout.write(f"Cancelled {count} prompt{'' if count == 1 else 's'}.")


def _cancelled_by(server: RunningServer, session: StoredSession) -> bool:
    """``False`` for a closed workspace: the server knows it no more, and what is parked there waits."""
    workspace, of_session = in_path(session.workspace_id), in_path(session.id)
    path = f"/v1/workspaces/{workspace}/agent/sessions/{of_session}/cancel"
    try:
        server.call("POST", path)
    except ServerRefused as refusal:
        if refusal.status == NOT_FOUND:
            return False
        raise CommandError(refusal.sentence) from refusal
    except ServerGone as error:
        raise CommandError(f"The server is gone: {error}") from error
    return True
