"""Sessions as ``workspaces`` shows them, with their deletion, which ends runs."""

from __future__ import annotations

from django.http import HttpResponse

from agents.actions.deletion import delete_session
from workspaces.api import sessions
from workspaces.api.answers import empty_answer
from workspaces.queries.workspaces import require_open
from workspaces.storage.reader import read


class SessionView(sessions.SessionView):
    async def delete(self, workspace_id: str, session_id: str) -> HttpResponse:
        await read(require_open, workspace_id)
        await delete_session(workspace_id, session_id)
        return empty_answer()
