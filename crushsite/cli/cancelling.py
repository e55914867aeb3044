"""Cancelling a session from a command: by the running server, else right here."""

from __future__ import annotations

from django.conf import settings
from django.core.management.base import CommandError

from agents.actions.blocking import cancel_and_wait
from crushsite.server_client import (
    RunningServer,
    ServerGone,
    ServerRefused,
    find_running_server,
    in_path,
)
from workspaces.storage.errors import Refusal

NOT_FOUND = 404


def cancel_wherever_it_runs(workspace_id: str, session_id: str) -> int | None:
    """How many prompts were cancelled, ``None`` where the server did it. Raises ``CommandError``."""
    server = find_running_server(settings.DATA_DIR)
    if server is not None and _cancelled_by(server, workspace_id, session_id):
        return None
    try:
        return cancel_and_wait(workspace_id, session_id)
    except Refusal as refusal:
        raise CommandError(refusal.sentence) from refusal


def _cancelled_by(server: RunningServer, workspace_id: str, session_id: str) -> bool:
    """``False`` for a closed workspace: the server knows it no more, and what is parked there waits."""
    workspace, session = in_path(workspace_id), in_path(session_id)
    path = f"/v1/workspaces/{workspace}/agent/sessions/{session}/cancel"
    try:
        server.call("POST", path)
    except ServerRefused as refusal:
        if refusal.status == NOT_FOUND:
            return False
        raise CommandError(refusal.sentence) from refusal
    except ServerGone as error:
        raise CommandError(f"The server is gone: {error}") from error
    return True
