"""Endpoints for a workspace's language servers: states, diagnostics, start and stop.

States come from the rows, which the process that hosts a server writes.
Diagnostics are known to that process alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from django.http import HttpResponse

from agents.models import LanguageServer
from agents.runs.tool_servers.language_servers import language_host
from agents.tools.lsp.diagnostics import Diagnostic
from agents.tools.lsp.positions import address_of
from workspaces.access import Right
from workspaces.api.answers import empty_answer, json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import PlainText
from workspaces.api.files import NEVER
from workspaces.api.paths import PATH_LIMIT, resolved
from workspaces.log.errors import LanguageServerUnknown
from workspaces.log.reader import read
from workspaces.log.timestamps import as_rfc3339
from workspaces.queries.workspaces import read_open_workspace, require_open


class LspsView(ApiView):
    rights: ClassVar = {"get": Right.READ}

    async def get(self, workspace_id: str) -> HttpResponse:
        return json_answer(await read(_states, workspace_id))


class LspDiagnosticsView(ApiView):
    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})

    async def get(self, workspace_id: str, name: str) -> HttpResponse:
        if name not in await read(_states, workspace_id):
            raise LanguageServerUnknown
        servers = language_host().known(workspace_id)
        server = servers.named(name) if servers is not None else None
        client = server.client if server is not None else None
        found = client.diagnostics.all() if client is not None else {}
        return await asyncio.to_thread(_answer, found)


class LspStartForm(Form):
    path = PlainText(limit=PATH_LIMIT)


class LspStartView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        """Starts the servers of this file; events report their progress."""
        fields = await self.fields(LspStartForm)
        path = await read(_resolved, workspace_id, fields["path"])
        await language_host().servers_of(workspace_id).start_for(path)
        return empty_answer()


class LspStopView(ApiView):
    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    async def post(self, workspace_id: str) -> HttpResponse:
        """Stops all servers; the next touched file starts its own again."""
        await read(require_open, workspace_id)
        servers = language_host().known(workspace_id)
        if servers is not None:
            await servers.stop()
        return empty_answer()


def _states(workspace_id: str) -> dict[str, Any]:
    require_open(workspace_id)
    rows = LanguageServer.objects.filter(workspace_id=workspace_id).order_by("name")
    return {row.name: _state(row) for row in rows}


def _state(row: LanguageServer) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": row.name,
        "state": row.state,
        "diagnostic_count": row.diagnostic_count,
        "connected_at": NEVER if row.connected_at is None else as_rfc3339(row.connected_at),
    }
    return shown | ({"error": row.error} if row.error else {})


def _resolved(workspace_id: str, given: str) -> Path:
    return resolved(given, folder=read_open_workspace(workspace_id).folder)


def _answer(found: Mapping[str, tuple[Diagnostic, ...]]) -> HttpResponse:
    return json_answer(
        {address_of(name): [dict(d.wire) for d in several] for name, several in found.items()}
    )
