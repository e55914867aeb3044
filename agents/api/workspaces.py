"""Endpoints that open, list, get and release workspaces, and retire clients."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse

from agents.config.cache import configs
from agents.runs.teardown import release, retire
from agents.skills.cache import skill_cache
from agents.skills.watch import shown_states
from workspaces.access import Right
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.version import VERSION
from workspaces.api.workspaces import OpeningForm, open_for_client
from workspaces.client_ids import client_id_of
from workspaces.delivery.attachments import close_streams
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.placement.elsewhere import folders_elsewhere
from workspaces.queries.workspaces import (
    OpenWorkspace,
    list_open_workspaces,
    read_open_workspace,
)


class WorkspacesView(ApiView):
    rights: ClassVar = {"get": Right.SIGNED_IN, "post": Right.SIGNED_IN}
    folder_methods: ClassVar = frozenset({"post"})

    async def get(self) -> HttpResponse:
        sees = self.caller.identity.sees
        seen = [each for each in await read(list_open_workspaces) if sees(each.id)]
        folders = folders_elsewhere(getattr(self.request, "scope", {}))
        far = {each.id: unread_workspace(each) for each in seen if folders.has(each.path)}
        far |= await folders.read("workspaces", far)
        shown = [far[each.id] if each.id in far else await _shown_if_open(each) for each in seen]
        return json_answer([each for each in shown if each is not None])

    async def post(self) -> HttpResponse:
        fields = await self.fields(OpeningForm)
        workspace_id = await open_for_client(fields, self.caller)
        self.connection.note(client_id_of(fields["client_id"]))
        # The cached configuration may belong to an earlier environment of the workspace.
        configs().forget(workspace_id)
        return json_answer(await shown_workspace(await read(read_open_workspace, workspace_id)))


class WorkspaceView(ApiView):
    rights: ClassVar = {"get": Right.READ, "delete": Right.OPEN}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        return json_answer(await shown_workspace(await read(read_open_workspace, workspace_id)))

    async def delete(self, workspace_id: str) -> HttpResponse:
        client_id = client_id_of(self.query("client_id"))
        await release(workspace_id, client_id)
        close_streams(client_id, workspace_id)
        return empty_answer()


class ClientView(ApiView):
    rights: ClassVar = {"delete": Right.SIGNED_IN}

    async def delete(self, client_id: str) -> HttpResponse:
        client_id = client_id_of(client_id)
        await retire(client_id, actor=self.actor)
        close_streams(client_id)
        return empty_answer()


async def _shown_if_open(workspace: OpenWorkspace) -> dict[str, Any] | None:
    try:
        return await shown_workspace(workspace)
    except WorkspaceUnknown:
        return None  # closed since the list was read


async def shown_workspace(workspace: OpenWorkspace) -> dict[str, Any]:
    """Returns a workspace as clients see it. Reads its folder. Raises ``WorkspaceUnknown``."""
    config = await configs().config_of(workspace.id)
    return unread_workspace(workspace) | {
        "config": config.public,
        "data_dir": config.data_dir,
        "skills": shown_states((await skill_cache().found_in(workspace.id)).states),
    }


def unread_workspace(workspace: OpenWorkspace) -> dict[str, Any]:
    """Returns a workspace whose folder cannot be read now."""
    mode = {"permission_mode": workspace.permission_mode, "yolo": True}
    return (mode if workspace.skip_permissions else {}) | {
        "config": None,
        "data_dir": workspace.data_dir,
        # Clients read this field without a check; its content is secret.
        "env": [],
        "id": workspace.id,
        "path": workspace.path,
        "skills": None,
        "version": VERSION,
    }
