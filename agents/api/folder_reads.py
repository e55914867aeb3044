"""What a worker reads of many folders at once, for a web process that does not have them.

Each answer is an object by workspace id. What has no room in it is absent, and requested again.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import orjson
from django.http import HttpResponse

from agents.api.workspaces import shown_workspace, unread_workspace
from agents.tools.files.uncommitted import git_state, uncommitted
from workspaces.access import Right
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import Texts
from workspaces.log.errors import Refusal, WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.models import Workspace
from workspaces.placement.elsewhere import MOST_IDS
from workspaces.queries.workspaces import read_open_workspace

ID_LIMIT = 36_000
ANSWER_BYTES = 700_000  # a forwarded answer has at most 1 MiB
GIT_SECONDS = 0.2  # of waiting for folders that were never compared


class IdsForm(Form):
    ids = Texts(count=MOST_IDS, limit=ID_LIMIT)


class ShownWorkspacesView(ApiView):
    """Open workspaces, as a client sees them; null for one that was closed."""

    rights: ClassVar = {"post": Right.SIGNED_IN}

    async def post(self) -> HttpResponse:
        found: dict[str, Any] = {}
        size = 0
        for key in (await self.fields(IdsForm))["ids"]:
            shown = await self._shown(key)
            length = len(orjson.dumps(shown))
            if length > ANSWER_BYTES:
                shown, length = unread_workspace(await read(read_open_workspace, key)), 0
            size += length
            if size > ANSWER_BYTES:
                break
            found[key] = shown
        return json_answer(found)

    async def _shown(self, key: str) -> dict[str, Any] | None:
        if not self.caller.identity.sees(key):
            return None
        try:
            workspace = await read(read_open_workspace, key)
            return await shown_workspace(workspace)
        except WorkspaceUnknown:
            return None
        except Refusal:
            return unread_workspace(workspace)


class GitStatesView(ApiView):
    """The branches of workspaces and their uncommitted lines; null where there are none yet."""

    rights: ClassVar = {"post": Right.SIGNED_IN}

    async def post(self) -> HttpResponse:
        ids = (await self.fields(IdsForm))["ids"]
        sees = self.caller.identity.sees
        rows = await read(lambda: list(Workspace.objects.filter(pk__in=filter(sees, ids))))
        paths = [row.path for row in rows]
        states = await asyncio.to_thread(uncommitted.get, paths, at_most_seconds=GIT_SECONDS)
        return json_answer({row.pk: git_state(states[row.path]) for row in rows})
