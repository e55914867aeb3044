"""Whether a workspace asks at all: ``yolo`` for older clients, a mode for newer ones."""

from __future__ import annotations

from django.http import HttpResponse

from workspaces.actions.workspaces import set_permission_mode, set_skip_permissions
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import Flag, PlainText
from workspaces.api.opening import permission_mode_of
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.models.workspace import PermissionMode
from workspaces.queries.workspaces import read_permission_mode


class SkipForm(Form):
    skip = Flag()


class SkipView(ApiView):
    async def get(self, workspace_id: str) -> HttpResponse:
        mode = await read(read_permission_mode, workspace_id)
        return json_answer({"skip": mode != PermissionMode.NORMAL})

    async def post(self, workspace_id: str) -> HttpResponse:
        skip = (await self.fields(SkipForm))["skip"]
        await writer.write(
            workspace_id, lambda tx: set_skip_permissions(tx, workspace_id, skip=skip)
        )
        return empty_answer()


class ModeForm(Form):
    mode = PlainText(limit=100)


class ModeView(ApiView):
    async def get(self, workspace_id: str) -> HttpResponse:
        return json_answer({"mode": await read(read_permission_mode, workspace_id)})

    async def post(self, workspace_id: str) -> HttpResponse:
        mode = permission_mode_of((await self.fields(ModeForm))["mode"])
        await writer.write(
            workspace_id, lambda tx: set_permission_mode(tx, workspace_id, mode=mode)
        )
        return empty_answer()
