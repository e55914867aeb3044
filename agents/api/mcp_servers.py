"""Endpoints for a workspace's MCP servers: states, refresh, prompts, resources and logins.

States come from the rows, which the process that hosts a server writes.
Requests to a server go through this process's own host.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any, ClassVar

from django.http import HttpResponse

from agents.config.cache import configs
from agents.config.edits.changes import StoredPlace, change_stored
from agents.config.edits.choices import StoredScope, remove_value, set_value
from agents.config.mask import masked_address
from agents.mcp_models import McpServer
from agents.runs.tool_servers.mcp_servers import mcp_host
from agents.runs.tool_servers.own_environment import server_env
from agents.tools.mcp.contract import (
    McpChange,
    McpFailed,
    McpStatus,
    OfferedPrompt,
    ResourceContent,
)
from agents.tools.mcp.limits import MAX_ARGUMENTS, MAX_NAME_CHARS, MAX_URI_CHARS
from agents.tools.mcp.server import McpServerClient
from agents.tools.shell.command import run
from agents.tools.shell.environment import user_environment
from agents.tools.shell.output import BoundedOutput
from agents.tools.shell.process import ProcessFailed
from workspaces.access import Right
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import PlainText, TextMap
from workspaces.api.files import NEVER
from workspaces.log.errors import BadField, McpServerUnknown, McpUnavailable
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.log.timestamps import as_rfc3339
from workspaces.queries.workspaces import read_open_workspace, require_open

_ARGUMENT_CHARS = 100_000

LOGIN_SECONDS = 900.0  # a person signs in with a browser


class McpStatesView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        """Returns the state of every server, including configured ones that have no row yet."""
        states = await read(_states, workspace_id)
        settings = (await configs().config_of(workspace_id)).settings
        for name, server in settings.mcp.items():
            if name not in states:
                state = McpStatus.DISABLED if server.is_disabled else McpStatus.STARTING
                states[name] = {"name": name, "state": state.value, "connected_at": NEVER}
        return json_answer({name: states[name] for name in sorted(states)})


class McpNameForm(Form):
    name = PlainText(limit=MAX_NAME_CHARS)


class McpRefreshView(ApiView):
    """Reads a list of the server again, and answers when it is read. An event reports changes."""

    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    change: McpChange = McpChange.TOOLS

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(McpNameForm)
        server = await server_named(workspace_id, fields["name"])
        try:
            await server.refresh(self.change)
        except McpFailed as failure:
            raise unavailable(server, failure) from None
        return empty_answer()


class McpPromptsView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        servers = await mcp_host().settled(workspace_id)
        return json_answer(
            [
                _prompt(server.name, prompt)
                for server in servers.values()
                if server.view.state is McpStatus.CONNECTED
                for prompt in server.offer.prompts
            ]
        )


class McpGetPromptForm(Form):
    client_id = PlainText(limit=MAX_NAME_CHARS)  # the server's name in the list of prompts
    prompt_id = PlainText(limit=MAX_NAME_CHARS)
    args = TextMap(count=MAX_ARGUMENTS, limit=_ARGUMENT_CHARS, allow_null=True, default=None)


class McpGetPromptView(ApiView):
    rights: ClassVar = {"post": Right.PROMPT}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(McpGetPromptForm)
        server = await server_named(workspace_id, fields["client_id"])
        try:
            text = await server.get_prompt(fields["prompt_id"], fields["args"] or {})
        except McpFailed as failure:
            raise unavailable(server, failure) from None
        return json_answer({"prompt": text})


class McpReadResourceForm(Form):
    name = PlainText(limit=MAX_NAME_CHARS)
    uri = PlainText(limit=MAX_URI_CHARS)


class McpReadResourceView(ApiView):
    rights: ClassVar = {"post": Right.PROMPT}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(McpReadResourceForm)
        server = await server_named(workspace_id, fields["name"])
        try:
            contents = await server.read_resource(fields["uri"])
        except McpFailed as failure:
            raise unavailable(server, failure) from None
        return json_answer([_content(content) for content in contents])


async def server_named(workspace_id: str, name: str) -> McpServerClient:
    """Returns the server. Raises ``WorkspaceUnknown`` and ``McpServerUnknown``."""
    server = (await mcp_host().servers_of(workspace_id)).get(name)
    if server is None:
        raise McpServerUnknown
    return server


def unavailable(server: McpServerClient, failure: McpFailed) -> McpUnavailable:
    return McpUnavailable(f"mcp server {server.name}: {failure}")


def _states(workspace_id: str) -> dict[str, Any]:
    require_open(workspace_id)
    rows = McpServer.objects.filter(workspace_id=workspace_id)
    return {row.name: _state(row) for row in rows}


def _state(row: McpServer) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": row.name,
        "state": row.state,
        "connected_at": NEVER if row.connected_at is None else as_rfc3339(row.connected_at),
    }
    optional = {
        "error": row.error,
        "tool_count": row.tool_count,
        "prompt_count": row.prompt_count,
        "resource_count": row.resource_count,
    }
    is_up = row.state == McpStatus.CONNECTED
    return shown | {
        name: value for name, value in optional.items() if value and (is_up or name == "error")
    }


def _prompt(server: str, prompt: OfferedPrompt) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": f"{server}:{prompt.name}",
        "title": prompt.title or prompt.name,
        "prompt_id": prompt.name,
        "client_id": server,
    }
    if prompt.description:
        shown["description"] = prompt.description
    if prompt.arguments:
        shown["arguments"] = [
            {
                "id": argument.name,
                "title": argument.title or argument.name,
                "required": argument.required,
            }
            | ({"description": argument.description} if argument.description else {})
            for argument in prompt.arguments
        ]
    return shown


def _content(content: ResourceContent) -> dict[str, str]:
    optional = {"mime_type": content.mime_type, "text": content.text, "blob": content.blob}
    return {"uri": content.uri} | {name: value for name, value in optional.items() if value}


class McpPendingAuthView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str) -> HttpResponse:
        """Returns the servers that wait for a login, with their masked addresses."""
        names = await read(_waiting, workspace_id)
        shown = (await configs().config_of(workspace_id)).public.get("mcp") or {}
        return json_answer(
            [
                {"name": name, "url": masked_address(str((shown.get(name) or {}).get("url", "")))}
                for name in names
            ]
        )


class McpAuthUrlView(ApiView):
    rights: ClassVar = {"get": Right.CONFIGURE}

    async def get(self, workspace_id: str) -> HttpResponse:
        """Returns the address of a login for the browser; empty if no login is under way."""
        name = self.query("name", limit=MAX_NAME_CHARS)
        if not name:
            raise BadField("name is required")
        return json_answer(_address(await read(_auth_url, workspace_id, name)))


class McpAuthView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})
    folder_seconds: ClassVar = LOGIN_SECONDS

    async def post(self, workspace_id: str) -> HttpResponse:
        """Starts a login and answers when it succeeds or times out. It outlives the request."""
        fields = await self.fields(McpNameForm)
        server = await server_named(workspace_id, fields["name"])
        try:
            await server.log_in()
        except McpFailed as failure:
            raise unavailable(server, failure) from None
        return json_answer({})


def _address(url: str) -> dict[str, Any]:
    return {"auth_url": url} if url else {}


def _waiting(workspace_id: str) -> list[str]:
    require_open(workspace_id)
    rows = McpServer.objects.filter(workspace_id=workspace_id, state=McpStatus.NEEDS_AUTH.value)
    return list(rows.order_by("name").values_list("name", flat=True))


def _auth_url(workspace_id: str, name: str) -> str:
    require_open(workspace_id)
    row = McpServer.objects.filter(workspace_id=workspace_id, name=name).first()
    if row is None:
        raise McpServerUnknown
    return row.auth_url


_KEY = "mcp.docker"
_SERVER = {"type": "stdio", "command": "docker", "args": ["mcp", "gateway", "run"]}
_VERSION_TIMEOUT_SECONDS = 10.0
_OUTPUT_BYTES = 2_000


class McpDockerEnableView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        workspace = await read(read_open_workspace, workspace_id)
        env = await configs().env_of(workspace_id) or server_env()
        await _require_gateway(Path(workspace.folder), dict(env))

        def change(place: StoredPlace) -> None:
            set_value(StoredScope.USER, _KEY, _SERVER, data_dir=place.data_dir)

        await change_stored(workspace_id, StoredScope.USER, change, what=_KEY, actor=self.actor)
        await mcp_host().open(workspace_id)
        return empty_answer()


class McpDockerDisableView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        """Removes the gateway from the stored configuration, if it is there."""

        def change(place: StoredPlace) -> None:
            remove_value(StoredScope.USER, _KEY, data_dir=place.data_dir)

        await change_stored(workspace_id, StoredScope.USER, change, what=_KEY, actor=self.actor)
        await mcp_host().open(workspace_id)
        return empty_answer()


async def _require_gateway(folder: Path, env: dict[str, str]) -> None:
    """Raises ``BadField`` if Docker or its MCP gateway is missing."""
    docker = await asyncio.to_thread(shutil.which, "docker", path=env.get("PATH") or os.defpath)
    if docker is None:
        raise BadField("docker was not found: install Docker Desktop, or put docker into the PATH")
    output = BoundedOutput(_OUTPUT_BYTES)
    try:
        finished = await run(
            [docker, "mcp", "version"],
            cwd=folder,
            env=user_environment(
                env, process_mark=new_id(), server_mark=mcp_host().server_mark, columns=0
            ),
            sink=output,
            timeout_seconds=_VERSION_TIMEOUT_SECONDS,
        )
    except ProcessFailed as failure:
        raise BadField(str(failure)) from None
    if finished.exit_code:
        raise BadField(
            "docker has no MCP gateway: install the plugin docker-mcp, or a newer Docker Desktop"
        )
