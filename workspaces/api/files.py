"""The files of a session: their versions, and which of them it has read."""

from __future__ import annotations

import stat
from functools import partial
from typing import ClassVar

from django.http import HttpResponse

from workspaces.access import Right
from workspaces.actions.files import record_read
from workspaces.actions.sessions import read_session as require_session
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import PlainText
from workspaces.api.paths import PATH_LIMIT, resolved
from workspaces.api.workspaces import write_in_open
from workspaces.log.errors import BadField
from workspaces.log.reader import read
from workspaces.log.timestamps import as_rfc3339
from workspaces.log.transaction import Transaction
from workspaces.queries.files import list_file_versions, list_read_files, read_last_read
from workspaces.queries.workspaces import read_open_workspace

NEVER = "0001-01-01T00:00:00Z"  # how this wire writes an absent time


class HistoryView(ApiView):
    rights: ClassVar = {"get": Right.READ}

    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        return json_answer(await read(list_file_versions, workspace_id, session_id))


class ReadFilesView(ApiView):
    rights: ClassVar = {"get": Right.READ}

    async def get(self, workspace_id: str, session_id: str) -> HttpResponse:
        return json_answer(await read(list_read_files, workspace_id, session_id))


class ReadForm(Form):
    session_id = PlainText(limit=200)
    path = PlainText(limit=PATH_LIMIT)


class MarkReadView(ApiView):
    """Marks a file as read in its current state, so that the session may edit it."""

    rights: ClassVar = {"post": Right.PROMPT}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(ReadForm)
        path, mtime_ns, size = await read(_look, workspace_id, fields["path"])
        mark = partial(_mark, workspace_id, fields["session_id"], path, mtime_ns, size)
        await write_in_open(workspace_id, mark)
        return empty_answer()


class LastReadView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        session_id, path = self.query("session_id"), self.query("path", limit=PATH_LIMIT)
        for name, value in (("session_id", session_id), ("path", path)):
            if not value:
                raise BadField(f"{name} is required")
        moment = await read(_last_read, workspace_id, session_id, path)
        return json_answer(NEVER if moment is None else as_rfc3339(moment))


def _last_read(workspace_id: str, session_id: str, path: str) -> int | None:
    folder = read_open_workspace(workspace_id).folder
    return read_last_read(workspace_id, session_id, str(resolved(path, folder=folder)))


def _look(workspace_id: str, given: str) -> tuple[str, int, int]:
    path = resolved(given, folder=read_open_workspace(workspace_id).folder)
    try:
        found = path.stat()
    except (OSError, ValueError):
        raise BadField("path: there is no such file") from None
    if not stat.S_ISREG(found.st_mode):
        raise BadField("path: is not a file")
    return str(path), found.st_mtime_ns, found.st_size


def _mark(
    workspace_id: str, session_id: str, path: str, mtime_ns: int, size: int, tx: Transaction
) -> None:
    require_session(tx, workspace_id, session_id)
    record_read(tx, session_id, path=path, mtime_ns=mtime_ns, size=size)
