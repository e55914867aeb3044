"""Shows and sets the permission mode: ``yolo`` for older clients, a mode for newer ones."""

from __future__ import annotations

from typing import ClassVar

from django.http import HttpResponse

from people.actions.audit import Act, record
from workspaces.access import Actor, Right
from workspaces.actions.workspaces import set_permission_mode, set_skip_permissions
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import Flag, PlainText
from workspaces.api.workspaces import permission_mode_of
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import PermissionMode
from workspaces.queries.workspaces import read_permission_mode


class SkipForm(Form):
    skip = Flag()


class SkipView(ApiView):
    rights: ClassVar = {"get": Right.READ, "post": Right.SKIP}

    async def get(self, workspace_id: str) -> HttpResponse:
        mode = await read(read_permission_mode, workspace_id)
        return json_answer({"skip": mode != PermissionMode.NORMAL})

    async def post(self, workspace_id: str) -> HttpResponse:
        skip = (await self.fields(SkipForm))["skip"]
        actor = self.actor

        def change(tx: Transaction) -> None:
            set_skip_permissions(tx, workspace_id, skip=skip)
            _record(tx, actor, workspace_id, "yolo" if skip else "normal")

        await writer.write(workspace_id, change)
        return empty_answer()


class ModeForm(Form):
    mode = PlainText(limit=100)


class ModeView(ApiView):
    rights: ClassVar = {"get": Right.READ, "post": Right.SKIP}

    async def get(self, workspace_id: str) -> HttpResponse:
        return json_answer({"mode": await read(read_permission_mode, workspace_id)})

    async def post(self, workspace_id: str) -> HttpResponse:
        mode = permission_mode_of((await self.fields(ModeForm))["mode"])
        actor = self.actor

        def change(tx: Transaction) -> None:
            set_permission_mode(tx, workspace_id, mode=mode)
            _record(tx, actor, workspace_id, mode.value)

        await writer.write(workspace_id, change)
        return empty_answer()


def _record(tx: Transaction, actor: Actor, workspace_id: str, mode: str) -> None:
    record(tx, actor, Act.PERMISSION_MODE, workspace_id=workspace_id, outcome=mode)
