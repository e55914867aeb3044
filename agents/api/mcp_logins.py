"""Logging in at MCP servers: who waits for it, where a browser goes, and the wait for its end."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from agents.api.mcp_servers import McpNameForm, server_named, unavailable
from agents.config.cache import configs
from agents.config.mask import masked_address
from agents.models import McpServer
from agents.tools.mcp.contract import McpFailed, State
from agents.tools.mcp.limits import MAX_NAME_CHARS
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.queries.workspaces import require_open
from workspaces.storage.errors import BadField, McpServerUnknown
from workspaces.storage.reader import read


class McpPendingAuthView(ApiView):
    async def get(self, workspace_id: str) -> HttpResponse:
        """The servers that wait for a login, with their own addresses."""
        names = await read(_waiting, workspace_id)
        shown = (await configs().config_of(workspace_id)).public.get("mcp") or {}
        return json_answer(
            [
                {"name": name, "url": masked_address(str((shown.get(name) or {}).get("url", "")))}
                for name in names
            ]
        )


class McpAuthUrlView(ApiView):
    async def get(self, workspace_id: str) -> HttpResponse:
        """Where a browser has to go now; nothing while no login is under way."""
        name = self.query("name", limit=MAX_NAME_CHARS)
        if not name:
            raise BadField("name is required")
        return json_answer(_address(await read(_auth_url, workspace_id, name)))


class McpAuthView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        """Answered when somebody has logged in, or nobody did in time. The login outlives the request."""
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
    rows = McpServer.objects.filter(workspace_id=workspace_id, state=State.NEEDS_AUTH.value)
    return list(rows.order_by("name").values_list("name", flat=True))


def _auth_url(workspace_id: str, name: str) -> str:
    require_open(workspace_id)
    row = McpServer.objects.filter(workspace_id=workspace_id, name=name).first()
    if row is None:
        raise McpServerUnknown
    return row.auth_url
