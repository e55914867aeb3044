"""Sessions as files: export as JSON lines or Markdown, and import of the former."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any, ClassVar

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from workspaces.access import Right
from workspaces.actions.imports import import_sessions, parse_export
from workspaces.api.json_parser import OrjsonParser
from workspaces.api.workspaces import write_in_open
from workspaces.log.transaction import Transaction
from workspaces.queries.export import export_lines, export_markdown, read_tree
from workspaces.rest.sessions import SessionSerializer
from workspaces.rest.view import Resource

LINES_TYPE = "application/x-ndjson"
MARKDOWN_TYPE = "text/markdown"


class LinesParser(OrjsonParser):
    """Gives the body as it is, whatever type the client names."""

    @override
    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        return stream.read()


class ExportQuerySerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(
        ["jsonl", "markdown"],
        default="jsonl",
        help_text="`jsonl` can be imported; `markdown` is for people.",
    )


class SessionExport(Resource):
    """A session as a file, with its child sessions."""

    rights: ClassVar = {"get": Right.READ}

    @extend_schema(
        parameters=[ExportQuerySerializer],
        responses={(200, LINES_TYPE): OpenApiTypes.STR, (200, MARKDOWN_TYPE): OpenApiTypes.STR},
    )
    def get(self, _: Request, workspace_id: str, session_id: str) -> StreamingHttpResponse:
        kind = self.query(ExportQuerySerializer)["kind"]
        tree = read_tree(workspace_id, session_id)
        is_lines = kind == "jsonl"
        export = export_lines if is_lines else export_markdown
        name = "session.jsonl" if is_lines else "session.md"
        return StreamingHttpResponse(
            export(workspace_id, tree),
            content_type=LINES_TYPE if is_lines else f"{MARKDOWN_TYPE}; charset=utf-8",
            headers={
                "Content-Disposition": f'attachment; filename="{name}"',
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
            },
        )


class SessionImport(Resource):
    """The import of an exported session."""

    rights: ClassVar = {"post": Right.PROMPT}
    serializer_class = SessionSerializer
    parser_classes = (LinesParser,)

    @extend_schema(request={LINES_TYPE: OpenApiTypes.STR}, responses={201: SessionSerializer})
    def post(self, request: Request, workspace_id: str) -> Response:
        """Adds the sessions of a file with new ids: all of them, or none."""
        content: Any = request.data  # an empty dictionary if the body is empty
        sessions = parse_export(content or b"")

        def job(tx: Transaction) -> dict[str, Any]:
            return import_sessions(tx, workspace_id, sessions)

        return Response(self.act(write_in_open, workspace_id, job), status=201)
