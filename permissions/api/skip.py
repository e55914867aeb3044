"""Whether a workspace asks at all (``yolo``)."""

from __future__ import annotations

from django.http import HttpResponse

from workspaces.actions.workspaces import set_skip_permissions
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import Flag
from workspaces.queries.workspaces import read_skip_permissions
from workspaces.storage.reader import read
from workspaces.storage.writer import writer


class SkipForm(Form):
    skip = Flag()


class SkipView(ApiView):
    async def get(self, workspace_id: str) -> HttpResponse:
        return json_answer({"skip": await read(read_skip_permissions, workspace_id)})

    async def post(self, workspace_id: str) -> HttpResponse:
        skip = (await self.fields(SkipForm))["skip"]
        await writer.write(
            workspace_id, lambda tx: set_skip_permissions(tx, workspace_id, skip=skip)
        )
        return empty_answer()
