"""Messages: of a session, and what was prompted in a session or a workspace."""

from __future__ import annotations

from django.http import HttpResponse

from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.log.reader import read
from workspaces.queries.messages import list_messages, list_prompted, list_user_messages


class MessagesView(ApiView):
    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        return json_answer(await read(list_messages, workspace_id, session_id))


class UserMessagesView(ApiView):
    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        return json_answer(await read(list_user_messages, workspace_id, session_id))


class WorkspaceUserMessagesView(ApiView):
    async def get(self, workspace_id: str) -> HttpResponse:
        return json_answer(await read(list_prompted, workspace_id))
