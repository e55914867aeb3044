"""What ends runs: deleting a session, releasing a workspace, retiring a client."""

from __future__ import annotations

from django.http import HttpResponse

from agents.actions.deletion import delete_session
from agents.actions.teardown import release, retire
from workspaces.api import sessions, workspaces
from workspaces.api.answers import empty_answer
from workspaces.api.api_view import ApiView
from workspaces.api.client_ids import client_id_of
from workspaces.queries.workspaces import require_open
from workspaces.storage.reader import read


class SessionView(sessions.SessionView):
    async def delete(self, workspace_id: str, session_id: str) -> HttpResponse:
        await read(require_open, workspace_id)
        await delete_session(workspace_id, session_id)
        return empty_answer()


class WorkspaceView(workspaces.WorkspaceView):
    async def delete(self, workspace_id: str) -> HttpResponse:
        await release(workspace_id, client_id_of(self.query("client_id")))
        return empty_answer()


class ClientView(ApiView):
    async def delete(self, client_id: str) -> HttpResponse:
        await retire(client_id_of(client_id))
        return empty_answer()
