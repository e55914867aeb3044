"""Language servers: their states, their diagnostics, start and stop."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.models import LanguageServer
from agents.runs.tool_servers.language_servers import language_host
from agents.states import LanguageServerState
from agents.tools.lsp.positions import address_of
from workspaces.access import Right
from workspaces.api.paths import PATH_LIMIT, resolved
from workspaces.log.errors import LanguageServerUnknown
from workspaces.log.timestamps import as_seconds
from workspaces.queries.workspaces import read_open_workspace
from workspaces.rest.view import Resource


class LanguageServerSerializer(serializers.Serializer[Any]):
    """The state of a language server."""

    name = serializers.CharField(help_text="Its name in the configuration.")
    state = serializers.ChoiceField(
        [state.name.lower() for state in LanguageServerState], help_text="Whether it works."
    )
    error = serializers.CharField(help_text="Why it does not work; empty if it does.")
    diagnostic_count = serializers.IntegerField(help_text="The number of its diagnostics.")
    connected_at = serializers.IntegerField(
        allow_null=True, help_text="When it was connected, in unix seconds; null if it is not."
    )


class FileDiagnosticsSerializer(serializers.Serializer[Any]):
    uri = serializers.CharField(help_text="The address of the file.")
    diagnostics = serializers.ListField(
        child=serializers.DictField(), help_text="Its diagnostics, as in the protocol (LSP)."
    )


class DiagnosticsSerializer(serializers.Serializer[Any]):
    """The diagnostics of a language server."""

    files = FileDiagnosticsSerializer(many=True, help_text="Every file that has some.")


class LanguageServerStartSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(
        max_length=PATH_LIMIT, help_text="A file; relative paths begin at the workspace."
    )


class LanguageServerList(Resource):
    """The language servers of a workspace, by name."""

    rights: ClassVar = {"get": Right.READ}
    serializer_class = LanguageServerSerializer
    ordering = ("name",)

    def get(self, _: Request, workspace_id: str) -> Response:
        rows = LanguageServer.objects.filter(workspace_id=workspace_id)
        return self.page(rows, _shown)


class LanguageServerDiagnostics(Resource):
    """The diagnostics of one language server. Only the process that hosts it has them."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = DiagnosticsSerializer

    def get(self, _: Request, workspace_id: str, name: str) -> Response:
        if not LanguageServer.objects.filter(workspace_id=workspace_id, name=name).exists():
            raise LanguageServerUnknown
        return Response({"files": self.act(_diagnostics, workspace_id, name)})


class LanguageServerStart(Resource):
    """The start of the language servers of a file."""

    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})
    serializer_class = LanguageServerStartSerializer

    @extend_schema(responses={204: None})
    def post(self, _: Request, workspace_id: str) -> Response:
        """Starts the servers of this file. Events report their progress."""
        path = resolved(self.body()["path"], folder=read_open_workspace(workspace_id).folder)
        self.act(_start, workspace_id, path)
        return Response(status=204)


class LanguageServerStop(Resource):
    """The end of all language servers of a workspace."""

    rights: ClassVar = {"post": Right.CONFIGURE}
    folder_methods: ClassVar = frozenset({"post"})

    @extend_schema(request=None, responses={204: None})
    def post(self, _: Request, workspace_id: str) -> Response:
        """Stops all servers. The next file that a tool uses starts its servers again."""
        self.act(_stop, workspace_id)
        return Response(status=204)


def _shown(row: LanguageServer) -> dict[str, Any]:
    return {
        "name": row.name,
        "state": LanguageServerState(row.state).name.lower(),
        "error": row.error,
        "diagnostic_count": row.diagnostic_count,
        "connected_at": None if row.connected_at is None else as_seconds(row.connected_at),
    }


async def _diagnostics(workspace_id: str, name: str) -> list[dict[str, Any]]:
    servers = language_host().known(workspace_id)
    server = servers.named(name) if servers is not None else None
    client = server.client if server is not None else None
    found = client.diagnostics.all() if client is not None else {}
    return [
        {"uri": address_of(path), "diagnostics": [dict(one.wire) for one in several]}
        for path, several in found.items()
    ]


async def _start(workspace_id: str, path: Any) -> None:
    await language_host().servers_of(workspace_id).start_for(path)


async def _stop(workspace_id: str) -> None:
    servers = language_host().known(workspace_id)
    if servers is not None:
        await servers.stop()
