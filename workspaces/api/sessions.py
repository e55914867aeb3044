"""Sessions: create, list, get, rename, children, and which one a client shows.

Deleting one ends its runs, so ``agents`` does it.
"""

from __future__ import annotations

from typing import ClassVar

from django.http import HttpResponse

from workspaces.access import Right
from workspaces.actions.claims import set_current_session
from workspaces.actions.sessions import create_session, rename_session
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import PlainText
from workspaces.api.workspaces import write_in_open
from workspaces.client_ids import client_id_of
from workspaces.log.reader import read
from workspaces.log.rows import for_v1
from workspaces.queries.sessions import list_children, list_sessions, read_session

TITLE_LIMIT = 500


class NewSessionForm(Form):
    title = PlainText(limit=TITLE_LIMIT, allow_blank=True, default="")


class SessionForm(Form):
    """A client's copy of the session, which may be stale: only the title is used."""

    title = PlainText(limit=TITLE_LIMIT, allow_blank=True)


class SessionsView(ApiView):
    rights: ClassVar = {"get": Right.READ, "post": Right.PROMPT}

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
    rights: ClassVar = {"get": Right.READ, "put": Right.PROMPT}

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
    rights: ClassVar = {"get": Right.READ}

    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        children = await read(list_children, workspace_id, session_id)
        return json_answer([for_v1(session) for session in children])


class CurrentSessionForm(Form):
    session_id = PlainText(limit=200, allow_blank=True)


class CurrentSessionView(ApiView):
    rights: ClassVar = {"post": Right.OPEN}

    async def post(self, workspace_id: str) -> HttpResponse:
        client_id = client_id_of(self.query("client_id"))
        self.connection.note(client_id)
        session_id = (await self.fields(CurrentSessionForm))["session_id"]
        user_id = self.caller.identity.user_id
        await write_in_open(
            workspace_id,
            lambda tx: set_current_session(
                tx, workspace_id, client_id, session_id=session_id, user_id=user_id
            ),
        )
        return empty_answer()
