"""How responses look: JSON, moments, entity tags, and lists in pages."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import orjson
from django.db import DataError
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response, set_response_etag
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from workspaces.log.timestamps import as_seconds

DEFAULT_LIMIT = 50
LARGEST_LIMIT = 200
NO_CURSOR = ValidationError({"cursor": ["is not a cursor of this list"]})


@extend_schema_field({"type": "integer", "format": "int64"})
class Seconds(serializers.Field[int, Any, int, Any]):
    """A moment, stored in milliseconds and shown in unix seconds."""

    def __init__(self, **options: Any) -> None:
        super().__init__(read_only=True, **options)

    @override
    def to_representation(self, value: int) -> int:
        return as_seconds(value)


class JsonRenderer(BaseRenderer):
    """The framework's own takes ten times as long."""

    media_type = "application/json"
    format = "json"
    charset = None

    @override
    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        return b"" if data is None else orjson.dumps(data, default=_plain)


def _plain(value: Any) -> Any:
    """Serializers return subclasses of dictionaries and lists."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    return str(value)


def add_etag(request: Request, response: Response) -> None:
    """Adds the entity tag when the response is rendered, or makes it a 304."""
    if response.status_code != 200:
        return

    def conditional(rendered: Response) -> HttpResponseBase | None:
        tagged: Any = set_response_etag(rendered)
        found = get_conditional_response(request, etag=tagged.headers.get("ETag"), response=tagged)
        return found if found is not rendered else None

    response.headers.setdefault("Cache-Control", "no-cache")
    response.add_post_render_callback(conditional)


class CursorPages(CursorPagination):
    """REST framework's pagination, whose cursors are plain values instead of links.

    Links would have the name of the host, which behind a proxy or on a socket file may be wrong. A
    cursor names a position, not a count: rows that are added or deleted meanwhile shift nothing.
    """

    page_size = DEFAULT_LIMIT
    max_page_size = LARGEST_LIMIT
    page_size_query_param = "limit"
    cursor_query_param = "cursor"
    ordering = "-id"

    @override
    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        ordering = getattr(view, "ordering", self.ordering)
        return (ordering,) if isinstance(ordering, str) else tuple(ordering)

    @override
    def get_page_size(self, request: Request) -> int:
        written = request.query_params.get(self.page_size_query_param)
        if written is None:
            return self.page_size
        if not (written.isascii() and written.isdigit() and 1 <= int(written[:9]) <= LARGEST_LIMIT):
            raise ValidationError({"limit": [f"must be a number from 1 to {LARGEST_LIMIT}"]})
        return int(written)

    @override
    def paginate_queryset(
        self, queryset: Any, request: Request, view: Any = None
    ) -> list[Any] | None:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, TypeError, OverflowError, DataError) as error:
            if request.query_params.get(self.cursor_query_param):
                # The position in the cursor is no value of the column: the client invented it.
                raise NO_CURSOR from error
            raise

    @override
    def decode_cursor(self, request: Request) -> Cursor | None:
        """Unlike the framework's, this refuses what is no cursor, instead of the first page."""
        written = request.query_params.get(self.cursor_query_param)
        if written is None:
            return None
        try:
            decoded = base64.b64decode(written.encode("ascii"), altchars=b"-_", validate=True)
            parts = dict(parse_qsl(decoded.decode("ascii"), strict_parsing=True))
            offset = int(parts.get("o", "0"))
        except ValueError:
            raise NO_CURSOR from None
        if not 0 <= offset <= self.offset_cutoff or "\0" in parts.get("p", ""):
            raise NO_CURSOR
        position: Any = parts.get("p")
        return Cursor(offset=offset, reverse=False, position=position)

    @override
    def encode_cursor(self, cursor: Cursor) -> str:
        parts: dict[str, str] = {}
        if cursor.offset:
            parts["o"] = str(cursor.offset)
        if cursor.position is not None:
            parts["p"] = str(cursor.position)
        return base64.urlsafe_b64encode(urlencode(parts).encode()).decode()

    @override
    def get_paginated_response(self, data: Any) -> Response:
        return Response({"items": data, "next": self.get_next_link()})

    @override
    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["items", "next"],
            "properties": {
                "items": dict(schema) | {"description": "The objects of this page."},
                "next": {
                    "type": ["string", "null"],
                    "description": "The `cursor` of the next page; null on the last one.",
                },
            },
        }
