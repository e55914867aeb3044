"""Messages of a session, and prompts of a session or a workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.http import HttpResponse

from workspaces.access import Right
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.log.reader import read
from workspaces.log.rows import message_for_v1
from workspaces.queries.messages import list_messages, list_prompted, list_user_messages


async def _read(query: Callable[..., list[dict[str, Any]]], *ids: str) -> list[Any]:
    return [message_for_v1(message) for message in await read(query, *ids)]


class MessagesView(ApiView):
    rights: ClassVar = {"get": Right.READ}

    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        return json_answer(await _read(list_messages, workspace_id, session_id))


class UserMessagesView(ApiView):
    rights: ClassVar = {"get": Right.READ}

    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        return json_answer(await _read(list_user_messages, workspace_id, session_id))


class WorkspaceUserMessagesView(ApiView):
    rights: ClassVar = {"get": Right.READ}

    async def get(self, workspace_id: str) -> HttpResponse:
        return json_answer(await _read(list_prompted, workspace_id))
