"""What ends runs: deleting a session, releasing a workspace, retiring a client."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from django.http import HttpResponse

from agents.actions.deletion import delete_session
from agents.actions.teardown import release, retire
from workspaces.api import sessions, workspaces
from workspaces.api.answers import empty_answer
from workspaces.api.api_view import ApiView
from workspaces.queries.workspaces import require_open
from workspaces.storage.client_ids import client_id_of
from workspaces.storage.reader import read


class SessionView(sessions.SessionView):
    async def delete(self, workspace_id: str, session_id: str) -> HttpResponse:
        await read(require_open, workspace_id)
        await delete_session(workspace_id, session_id)
        return empty_answer()


# Ends the streams of a client that has left, of one workspace or of all.
CloseStreams: TypeAlias = Callable[[str, str | None], None]


class WorkspaceView(workspaces.WorkspaceView):
    close_streams: CloseStreams | None = None

    async def delete(self, workspace_id: str) -> HttpResponse:
        client_id = client_id_of(self.query("client_id"))
        await release(workspace_id, client_id)
        if self.close_streams is not None:
            self.close_streams(client_id, workspace_id)
        return empty_answer()


class ClientView(ApiView):
    close_streams: CloseStreams | None = None

    async def delete(self, client_id: str) -> HttpResponse:
        client_id = client_id_of(client_id)
        await retire(client_id)
        if self.close_streams is not None:
            self.close_streams(client_id, None)
        return empty_answer()
