"""Endpoints for a session's work: state, cancel, summary, and queued prompts."""

from __future__ import annotations

from typing import ClassVar

from django.http import HttpResponse

from agents.api.prompts import queue_limits
from agents.runs.accept import summarize
from agents.runs.cancel import cancel, clear_queue, delete_session
from agents.runs.queries import queued_prompts
from workspaces.access import Right
from workspaces.api import sessions
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.log.reader import read
from workspaces.queries.sessions import require_session
from workspaces.queries.workspaces import require_open


class DeletableSessionView(sessions.SessionView):
    rights: ClassVar = {**sessions.SessionView.rights, "delete": Right.CANCEL}

    async def delete(self, workspace_id: str, session_id: str) -> HttpResponse:
        await read(require_open, workspace_id)
        await delete_session(workspace_id, session_id, actor=self.actor)
        return empty_answer()


class CancelView(ApiView):
    rights: ClassVar = {"post": Right.CANCEL}

    async def post(self, workspace_id: str, session_id: str) -> HttpResponse:
        await cancel(workspace_id, session_id, actor=self.actor)
        return empty_answer()


class SummarizeView(ApiView):
    rights: ClassVar = {"post": Right.PROMPT}

    async def post(self, workspace_id: str, session_id: str) -> HttpResponse:
        """Accepts a summary like a prompt: it is queued, and survives a restart."""
        await summarize(workspace_id, session_id, limits=queue_limits(), actor=self.actor)
        return empty_answer()


class QueuedView(ApiView):
    rights: ClassVar = {"get": Right.READ}

    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        return json_answer(len(await read(_waiting, workspace_id, session_id)))


class QueueListView(ApiView):
    rights: ClassVar = {"get": Right.READ}

    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        """Returns the queued prompts, or ``null`` if there are none."""
        return json_answer(await read(_waiting, workspace_id, session_id) or None)


class QueueClearView(ApiView):
    rights: ClassVar = {"post": Right.CANCEL}

    async def post(self, workspace_id: str, session_id: str) -> HttpResponse:
        await read(require_session, workspace_id, session_id)
        await clear_queue(workspace_id, session_id, actor=self.actor)
        return empty_answer()


def _waiting(workspace_id: str, session_id: str) -> list[str]:
    require_session(workspace_id, session_id)
    return queued_prompts(workspace_id, session_id)
