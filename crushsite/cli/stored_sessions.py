"""The sessions of all workspaces, open or closed, as `prompt` and `fleet` find and cancel them.

Reads the database directly, also while a server runs. Cancelling goes through the running server, if
any.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.core.management.base import CommandError

from agents.runs.teardown import cancel_and_wait
from crushsite.program_name import command_line
from crushsite.server_client import (
    RunningServer,
    ServerGone,
    ServerRefused,
    find_running_server,
    in_path,
)
from workspaces.log.errors import Refusal
from workspaces.models import Session

SHORTEST_BEGINNING = 4  # characters of an id that may stand for the whole


@dataclass(frozen=True, slots=True)
class StoredSession:
    id: str
    title: str
    workspace_id: str
    path: str
    is_busy: bool
    message_count: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    updated_at: int  # milliseconds


class NotFound(Exception):
    """No session matches the id, or more than one does."""


def find_stored(wanted: str) -> StoredSession:
    """Finds a session by its id or the beginning of it. Raises ``NotFound``."""
    rows = Session.objects.filter(is_deleting=False).select_related("workspace")
    exact = rows.filter(pk=wanted).first()
    if exact is not None:
        return _stored(exact)
    found = (
        list(rows.filter(pk__startswith=wanted)[:2]) if len(wanted) >= SHORTEST_BEGINNING else []
    )
    if len(found) > 1:
        raise NotFound(f"Several sessions begin with {wanted!r}: give more characters of the id.")
    if not found:
        raise NotFound(f"There is no session {wanted!r}. `{command_line('sessions')}` lists them.")
    return _stored(found[0])


def _stored(row: Session) -> StoredSession:
    return StoredSession(
        row.pk,
        row.title,
        row.workspace_id,
        row.workspace.path,
        row.is_busy,
        row.message_count,
        row.total_prompt_tokens,
        row.total_completion_tokens,
        row.cost,
        row.updated_at,
    )


NOT_FOUND = 404


def cancel_wherever_it_runs(workspace_id: str, session_id: str) -> int | None:
    """Cancels; returns the number of prompts, ``None`` via a server. Raises ``CommandError``."""
    server = find_running_server(settings.DATA_DIR)
    if server is not None and _cancelled_by(server, workspace_id, session_id):
        return None
    try:
        return cancel_and_wait(workspace_id, session_id)
    except Refusal as refusal:
        raise CommandError(refusal.sentence) from refusal


def _cancelled_by(server: RunningServer, workspace_id: str, session_id: str) -> bool:
    """``False`` for a closed workspace: no server has it open, but runs may be parked there."""
    workspace, session = in_path(workspace_id), in_path(session_id)
    path = f"/v1/workspaces/{workspace}/agent/sessions/{session}/cancel"
    try:
        server.call("POST", path)
    except ServerRefused as refusal:
        if refusal.status == NOT_FOUND:
            return False
        raise CommandError(refusal.sentence) from refusal
    except ServerGone as error:
        raise CommandError(f"The connection to the server failed: {error}") from error
    return True
