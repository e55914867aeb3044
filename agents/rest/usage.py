"""Usage and cost of model requests: sums by day, user, workspace and model, as JSON or CSV."""

from __future__ import annotations

import base64
import csv
import io
from typing import Any, ClassVar

import orjson
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from agents.runs.usage import UsageBy, UsageFilter, read_usage
from workspaces.access import Right
from workspaces.rest.answers import NO_CURSOR, CursorPages
from workspaces.rest.view import Resource

NAME_LIMIT = 200
LATEST = 2**42  # seconds: far in the future, and small enough for a column of milliseconds
FIGURES = (
    "requests",
    "prompt_tokens",
    "completion_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost",
)


class UsageSerializer(serializers.Serializer[Any]):
    """What the model requests of one group have used. Fields that do not group are absent."""

    day = serializers.CharField(required=False, help_text="The day in UTC, as `2026-11-19`.")
    user_id = serializers.CharField(
        required=False, allow_null=True, help_text="The user's id; null where it is not known."
    )
    user_name = serializers.CharField(
        required=False, help_text="The user's name; empty where it is not known."
    )
    workspace_id = serializers.CharField(required=False, help_text="The workspace.")
    workspace_path = serializers.CharField(required=False, help_text="Its folder.")
    provider = serializers.CharField(
        required=False, help_text="The model's provider; empty where it is not known."
    )
    model = serializers.CharField(
        required=False, help_text="The model; empty where it is not known."
    )
    requests = serializers.IntegerField(
        help_text="The number of stored entries: one for each model request."
    )
    prompt_tokens = serializers.IntegerField(help_text="With those from the provider's cache.")
    completion_tokens = serializers.IntegerField(help_text="The tokens of the replies.")
    cache_read_tokens = serializers.IntegerField(help_text="Those read from the cache.")
    cache_write_tokens = serializers.IntegerField(help_text="Those written to the cache.")
    cost = serializers.FloatField(help_text="In the currency of the models' prices.")


class UsageQuery(serializers.Serializer[Any]):
    by = serializers.CharField(
        default="day",
        allow_blank=True,
        max_length=NAME_LIMIT,
        help_text="What to group by, with commas between: `day`, `user`, `workspace`, `model`."
        " Empty: one sum of everything.",
    )
    since = serializers.IntegerField(
        required=False, min_value=0, max_value=LATEST, help_text="Not before, in unix seconds."
    )
    until = serializers.IntegerField(
        required=False, min_value=0, max_value=LATEST, help_text="Only before, in unix seconds."
    )
    workspace_id = serializers.CharField(
        required=False, max_length=NAME_LIMIT, help_text="Only of this workspace."
    )
    session_id = serializers.CharField(
        required=False, max_length=NAME_LIMIT, help_text="Only of this session."
    )
    user = serializers.CharField(
        required=False, max_length=NAME_LIMIT, help_text="Only of the user with this name."
    )
    provider = serializers.CharField(
        required=False, max_length=NAME_LIMIT, help_text="Only of this provider."
    )
    model = serializers.CharField(
        required=False, max_length=NAME_LIMIT, help_text="Only of this model."
    )

    def validate_by(self, value: str) -> list[UsageBy]:
        names = [name for name in value.split(",") if name]
        try:
            return list(dict.fromkeys(UsageBy(name) for name in names))
        except ValueError:
            known = ", ".join(UsageBy)
            raise ValidationError(f"must be some of {known}, with commas between") from None


class UsageBase(Resource):
    rights: ClassVar = {}
    serializer_class = UsageSerializer

    def rows(self) -> list[dict[str, Any]]:
        given = self.query(UsageQuery)
        visible = self.caller.identity.visible_workspaces
        named = given.get("workspace_id")
        if named is not None:
            is_seen = visible is None or named in visible
            visible = frozenset([named]) if is_seen else frozenset()
        chosen = UsageFilter(
            since=_ms(given.get("since")),
            before=_ms(given.get("until")),
            workspaces=visible,
            user=given.get("user", ""),
            provider=given.get("provider", ""),
            model=given.get("model", ""),
            session_id=given.get("session_id", ""),
        )
        return [_shown(row) for row in read_usage(given["by"], chosen)]


class UsageList(UsageBase):
    """What model requests have used in the workspaces that you may read, the newest days first."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    ordering = ("-day", "user_id", "user_name", "workspace_id", "provider", "model")

    @extend_schema(parameters=[UsageQuery])
    def get(self, request: Request) -> Response:
        rows = self.rows()
        limit = CursorPages().get_page_size(request)
        written = request.query_params.get("cursor")
        start = 0 if written is None else _after(rows, _decoded(written))
        page = rows[start : start + limit]
        has_more = start + limit < len(rows)
        return Response({"items": page, "next": _encoded(page[-1]) if has_more else None})


class UsageCsv(UsageBase):
    """The same as a table."""

    rights: ClassVar = {"get": Right.SIGNED_IN}

    @extend_schema(
        parameters=[UsageQuery],
        responses={
            (200, "text/csv"): OpenApiResponse(
                {"type": "string"}, description="Comma-separated values with a head line."
            )
        },
    )
    def get(self, _: Request) -> HttpResponse:
        rows = self.rows()
        text = io.StringIO()
        table = csv.writer(text)
        names = list(rows[0]) if rows else list(FIGURES)
        table.writerow(names)
        table.writerows([_cell(row[name]) for name in names] for row in rows)
        return HttpResponse(
            text.getvalue(),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": 'attachment; filename="usage.csv"'},
        )


def _ms(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    if row.get("user_id") is not None:
        row["user_id"] = str(row["user_id"])
    return row


def _cell(value: Any) -> Any:
    """Names come from people and from configurations: a table program must not compute them."""
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{value}"
    return "" if value is None else value


def _key(row: dict[str, Any]) -> list[Any]:
    """Returns what a row is grouped by: the position of a cursor."""
    return [value for name, value in row.items() if name not in FIGURES]


def _after(rows: list[dict[str, Any]], key: list[Any]) -> int:
    """Returns the index behind the row with this key, which keeps its place between requests."""
    for index, row in enumerate(rows):
        if _key(row) == key:
            return index + 1
    raise NO_CURSOR


def _encoded(row: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(_key(row))).decode()


def _decoded(written: str) -> list[Any]:
    try:
        key = orjson.loads(base64.urlsafe_b64decode(written.encode("ascii")))
    except ValueError:
        raise NO_CURSOR from None
    if not isinstance(key, list):
        raise NO_CURSOR
    return key
