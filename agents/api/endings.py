"""What ends runs: deleting a session, releasing a workspace, retiring a client."""

from __future__ import annotations

from django.http import HttpResponse

from agents.actions.deletion import delete_session
from agents.actions.teardown import release, retire
from workspaces.api import sessions, workspaces
from workspaces.api.answers import empty_answer
from workspaces.api.api_view import ApiView
from workspaces.queries.workspaces import require_open
from workspaces.storage.client_ids import client_id_of
from workspaces.storage.reader import read
from workspaces.streams.attachments import close_streams


class SessionView(sessions.SessionView):
    async def delete(self, workspace_id: str, session_id: str) -> HttpResponse:
        await read(require_open, workspace_id)
        await delete_session(workspace_id, session_id)
        return empty_answer()


class WorkspaceView(workspaces.WorkspaceView):
    async def delete(self, workspace_id: str) -> HttpResponse:
        client_id = client_id_of(self.query("client_id"))
        await release(workspace_id, client_id)
        close_streams(client_id, workspace_id)
        return empty_answer()


class ClientView(ApiView):
    async def delete(self, client_id: str) -> HttpResponse:
        client_id = client_id_of(client_id)
        await retire(client_id)
        close_streams(client_id)
        return empty_answer()
