"""The native interface's snapshot: a state with the number of the log at which it is true."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpResponse

from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.log.reader import read
from workspaces.queries.snapshot import ReadMore, read_workspace_snapshot


class SnapshotView(ApiView):
    more: Sequence[ReadMore] = ()

    async def get(self, workspace_id: str) -> HttpResponse:
        session_id = self.query("session")
        snapshot = await read(
            read_workspace_snapshot, workspace_id, session_id=session_id, more=self.more
        )
        return json_answer(snapshot)
