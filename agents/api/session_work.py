"""A session's work: its state, its cancel, and the prompts that wait in it."""

from __future__ import annotations

from django.http import HttpResponse

from agents.api.prompts import queue_limits
from agents.runs.accept import summarize
from agents.runs.cancel import cancel, clear_queue, delete_session
from agents.runs.claim import queued_prompts
from workspaces.api import sessions
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.log.reader import read
from workspaces.queries.sessions import require_session
from workspaces.queries.workspaces import require_open


class DeletableSessionView(sessions.SessionView):
    async def delete(self, workspace_id: str, session_id: str) -> HttpResponse:
        await read(require_open, workspace_id)
        await delete_session(workspace_id, session_id)
        return empty_answer()


class CancelView(ApiView):
    async def post(self, workspace_id: str, session_id: str) -> HttpResponse:
        await read(require_session, workspace_id, session_id)
        await cancel(workspace_id, session_id)
        return empty_answer()


class SummarizeView(ApiView):
    async def post(self, workspace_id: str, session_id: str) -> HttpResponse:
        """Accepted like a prompt: behind what is queued, and kept over a restart."""
        await summarize(workspace_id, session_id, limits=queue_limits())
        return empty_answer()


class QueuedView(ApiView):
    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        return json_answer(len(await read(_waiting, workspace_id, session_id)))


class QueueListView(ApiView):
    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        """``null`` when none waits."""
        return json_answer(await read(_waiting, workspace_id, session_id) or None)


class QueueClearView(ApiView):
    async def post(self, workspace_id: str, session_id: str) -> HttpResponse:
        await read(require_session, workspace_id, session_id)
        await clear_queue(workspace_id, session_id)
        return empty_answer()


def _waiting(workspace_id: str, session_id: str) -> list[str]:
    require_session(workspace_id, session_id)
    return queued_prompts(workspace_id, session_id)
