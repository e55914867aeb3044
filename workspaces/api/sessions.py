"""Sessions: create, list, get, rename, children. Deleting one ends its runs, so ``agents`` does it."""

from __future__ import annotations

from django.http import HttpResponse

from workspaces.actions.sessions import create_session, rename_session
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import Text
from workspaces.api.writing import write_in_open
from workspaces.events.session_rows import for_v1
from workspaces.queries.sessions import list_children, list_sessions, read_session
from workspaces.storage.reader import read

TITLE_LIMIT = 500


class NewSessionForm(Form):
    title = Text(limit=TITLE_LIMIT, allow_blank=True, default="")


class SessionForm(Form):
    """A client's copy of the whole session, which may be stale: the title alone is taken."""

    title = Text(limit=TITLE_LIMIT, allow_blank=True)


class SessionsView(ApiView):
    async def get(self, workspace_id: str) -> HttpResponse:
        sessions = await read(list_sessions, workspace_id)
        return json_answer([for_v1(session) for session in sessions])

    async def post(self, workspace_id: str) -> HttpResponse:
        title = (await self.fields(NewSessionForm))["title"]
        made = await write_in_open(
            workspace_id,
            lambda tx: create_session(tx, workspace_id, title=title),
        )
        return json_answer(for_v1(made))


class SessionView(ApiView):
    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        return json_answer(for_v1(await read(read_session, workspace_id, session_id)))

    async def put(self, workspace_id: str, session_id: str) -> HttpResponse:
        title = (await self.fields(SessionForm))["title"]
        renamed = await write_in_open(
            workspace_id,
            lambda tx: rename_session(tx, workspace_id, session_id, title=title),
        )
        return json_answer(for_v1(renamed))


class ChildrenView(ApiView):
    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        children = await read(list_children, workspace_id, session_id)
        return json_answer([for_v1(session) for session in children])
