"""Sessions: list, create, show, rename, pin, archive, fork, the tree below one, and those of all
workspaces.

Deleting one ends its runs, so ``agents.rest.sessions`` does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import orjson
from django.db.models import QuerySet
from drf_spectacular.helpers import lazy_serializer
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces.access import Right
from workspaces.actions.forks import fork_session
from workspaces.actions.sessions import (
    LARGEST_TREE,
    create_session,
    mark_session,
    rename_session,
)
from workspaces.api.paths import PATH_LIMIT
from workspaces.api.workspaces import write_in_open
from workspaces.log.errors import SessionUnknown
from workspaces.log.rows import SessionRow, session_wire
from workspaces.log.transaction import Transaction
from workspaces.models import Session
from workspaces.rest.view import Resource

TITLE_LIMIT = 500


class TodoSerializer(serializers.Serializer[Any]):
    content = serializers.CharField(help_text="What is to be done.")
    status = serializers.ChoiceField(
        ["pending", "in_progress", "completed"], help_text="How far it is."
    )
    active_form = serializers.CharField(help_text="The same, as something that is being done.")


class SessionSerializer(serializers.Serializer[Any]):
    """A conversation, as in events. Times are 0 where there is none."""

    id = serializers.CharField(read_only=True, help_text="An opaque string.")
    title = serializers.CharField(help_text="Empty until the first prompt gives it one.")
    parent_session_id = serializers.CharField(
        help_text="Of a child session: the session whose run started it."
    )
    forked_from = serializers.CharField(help_text="Of a fork: the session that it began as.")
    created_at = serializers.IntegerField(help_text="Unix seconds.")
    updated_at = serializers.IntegerField(help_text="When it changed at last.")
    pinned_at = serializers.IntegerField(help_text="When it was pinned.")
    archived_at = serializers.IntegerField(help_text="When it was archived.")
    is_busy = serializers.BooleanField(help_text="A run is running, parked or waiting.")
    attached_clients = serializers.IntegerField(help_text="How many clients show it.")
    message_count = serializers.IntegerField(help_text="How many messages it has.")
    summary_message_id = serializers.CharField(
        help_text="The message with the summary that replaces what was before it."
    )
    prompt_tokens = serializers.IntegerField(help_text="Of its last model request.")
    completion_tokens = serializers.IntegerField(help_text="Of its last model request.")
    total_prompt_tokens = serializers.IntegerField(help_text="Of all its model requests.")
    total_completion_tokens = serializers.IntegerField(help_text="Of all its model requests.")
    cost = serializers.FloatField(help_text="Of all its model requests, in US dollars.")
    todos = TodoSerializer(many=True, help_text="The list that the model keeps.")


class SessionTreeSerializer(SessionSerializer):
    """A session with its child sessions, and theirs."""

    children = serializers.SerializerMethodField(help_text="Child sessions, the oldest first.")

    @extend_schema_field(
        lazy_serializer("workspaces.rest.sessions.SessionTreeSerializer")(many=True)
    )
    def get_children(self, session: dict[str, Any]) -> Any:
        return session["children"]


class PlacedSessionSerializer(SessionSerializer):
    """A session, and where it is."""

    workspace_id = serializers.CharField(help_text="Its workspace.")
    path = serializers.CharField(help_text="The folder of the workspace.")
    is_workspace_open = serializers.BooleanField(
        help_text="Most requests need an open workspace: open its `path` first."
    )


class PlacedSessionQuerySerializer(serializers.Serializer[Any]):
    id = serializers.CharField(
        required=False, max_length=200, help_text="Only those whose id begins like this."
    )
    path = serializers.CharField(
        required=False, max_length=PATH_LIMIT, help_text="Only those of this folder."
    )
    with_children = serializers.BooleanField(default=False, help_text="Lists child sessions, too.")


class SessionQuerySerializer(serializers.Serializer[Any]):
    archived = serializers.ChoiceField(
        ["no", "only", "all"], default="no", help_text="Whether archived sessions are listed."
    )
    pinned = serializers.BooleanField(
        default=False, help_text="Lists only the sessions that are pinned."
    )


class NewSessionSerializer(serializers.Serializer[Any]):
    title = serializers.CharField(
        max_length=TITLE_LIMIT,
        allow_blank=True,
        default="",
        help_text="Empty: the first prompt gives it one.",
    )


class SessionChangeSerializer(serializers.Serializer[Any]):
    """Absent fields stay as they are."""

    title = serializers.CharField(
        max_length=TITLE_LIMIT, allow_blank=True, required=False, help_text="A new title."
    )
    is_pinned = serializers.BooleanField(required=False, help_text="Pins it, or ends that.")
    is_archived = serializers.BooleanField(required=False, help_text="Archives it, or ends that.")


class ForkSerializer(serializers.Serializer[Any]):
    message_id = serializers.CharField(
        max_length=36,
        allow_blank=True,
        default="",
        help_text="The newest message that is copied. Empty: all that are finished.",
    )
    title = serializers.CharField(
        max_length=TITLE_LIMIT,
        allow_blank=True,
        required=False,
        help_text="Of the new session. Absent: the same title.",
    )


def sessions_of(workspace_id: str) -> QuerySet[Session, dict[str, Any]]:
    found = Session.objects.filter(workspace_id=workspace_id, is_deleting=False)
    rows: QuerySet[Session, dict[str, Any]] = found.values(*SessionRow._fields)
    return rows


def session_object(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a session for clients; ``row`` has the columns of ``SessionRow``."""
    todos = orjson.dumps(row["todos"]).decode()
    return session_wire(SessionRow(**{**row, "todos": todos}))


class SessionList(Resource):
    """The sessions of a workspace without child sessions, the one that changed last first."""

    rights: ClassVar = {"get": Right.READ, "post": Right.PROMPT}
    serializer_class = SessionSerializer
    queryset = Session.objects.none()
    ordering = ("-updated_at", "-id")

    @extend_schema(parameters=[SessionQuerySerializer])
    def get(self, _: Request, workspace_id: str) -> Response:
        wanted = self.query(SessionQuerySerializer)
        found = sessions_of(workspace_id).filter(parent_session_id="")
        if wanted["archived"] != "all":
            found = found.filter(archived_at__isnull=wanted["archived"] == "no")
        if wanted["pinned"]:
            found = found.filter(pinned_at__isnull=False)
        return self.page(found, session_object)

    @extend_schema(request=NewSessionSerializer, responses={201: SessionSerializer})
    def post(self, _: Request, workspace_id: str) -> Response:
        title = self.body(NewSessionSerializer)["title"]

        def job(tx: Transaction) -> dict[str, Any]:
            return create_session(tx, workspace_id, title=title)

        return Response(self.act(write_in_open, workspace_id, job), status=201)


class PlacedSessionList(Resource):
    """The sessions of all workspaces that you may read, the one that changed last first.

    Those of closed workspaces and archived sessions are listed, too.
    """

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = PlacedSessionSerializer
    queryset = Session.objects.filter(is_deleting=False)
    ordering = ("-updated_at", "-id")

    # `list` is the function of the sessions of one workspace.
    @extend_schema(
        parameters=[PlacedSessionQuerySerializer],
        extensions={"x-client-name": "list_everywhere"},
    )
    def get(self, _: Request) -> Response:
        wanted = self.query(PlacedSessionQuerySerializer)
        found = self.visible(self.get_queryset())
        if not wanted["with_children"]:
            found = found.filter(parent_session_id="")
        if "id" in wanted:
            found = found.filter(id__startswith=wanted["id"])
        if "path" in wanted:
            found = found.filter(workspace__path=wanted["path"])
        return self.page(found.values(*SessionRow._fields, *_PLACE), placed_session_object)


_PLACE = ("workspace_id", "workspace__path", "workspace__is_open")


def placed_session_object(row: Mapping[str, Any]) -> dict[str, Any]:
    of_session = {name: row[name] for name in SessionRow._fields}
    place = dict(zip(("workspace_id", "path", "is_workspace_open"), _PLACE, strict=True))
    return session_object(of_session) | {name: row[column] for name, column in place.items()}


class SessionBase(Resource):
    """One session."""

    rights: ClassVar = {"get": Right.READ, "patch": Right.PROMPT}
    serializer_class = SessionSerializer

    def get(self, _: Request, workspace_id: str, session_id: str) -> Response:
        row = sessions_of(workspace_id).filter(id=session_id).first()
        if row is None:
            raise SessionUnknown
        return Response(session_object(row))

    @extend_schema(request=SessionChangeSerializer, responses=SessionSerializer)
    def patch(self, _: Request, workspace_id: str, session_id: str) -> Response:
        """Renames, pins or archives it."""
        changes = self.body(SessionChangeSerializer)
        title = changes.pop("title", None)

        def job(tx: Transaction) -> dict[str, Any]:
            if title is not None:
                rename_session(tx, workspace_id, session_id, title=title)
            return mark_session(tx, workspace_id, session_id, **changes)

        return Response(self.act(write_in_open, workspace_id, job))


class SessionForks(Resource):
    """Forks of a session."""

    rights: ClassVar = {"post": Right.PROMPT}
    serializer_class = ForkSerializer

    @extend_schema(responses={201: SessionSerializer})
    def post(self, _: Request, workspace_id: str, session_id: str) -> Response:
        """Adds a session with copies of the messages up to one of them."""
        wanted = self.body()

        def job(tx: Transaction) -> dict[str, Any]:
            return fork_session(
                tx,
                workspace_id,
                session_id,
                message_id=wanted["message_id"],
                title=wanted.get("title"),
            )

        return Response(self.act(write_in_open, workspace_id, job), status=201)


class SessionTree(Resource):
    """A session with all child sessions below it."""

    rights: ClassVar = {"get": Right.READ}
    serializer_class = SessionTreeSerializer

    def get(self, _: Request, workspace_id: str, session_id: str) -> Response:
        root = sessions_of(workspace_id).filter(id=session_id).first()
        if root is None:
            raise SessionUnknown
        tree = {**session_object(root), "children": []}
        level, count = {session_id: tree}, 1
        while level and count < LARGEST_TREE:
            rows = sessions_of(workspace_id).filter(parent_session_id__in=list(level))
            below: dict[str, dict[str, Any]] = {}
            for row in rows.order_by("created_at", "id")[: LARGEST_TREE - count]:
                child = {**session_object(row), "children": []}
                cast("list[Any]", level[row["parent_session_id"]]["children"]).append(child)
                below[row["id"]] = child
            level, count = below, count + len(below)
        return Response(tree)
