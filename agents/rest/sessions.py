"""One session, which can be deleted, and its rewinds."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.runs.cancel import delete_session
from agents.runs.history.rewind import preview_rewind, rewind, undo_rewind
from agents.tools.files.restore_plan import FileResult, LeftReason
from workspaces.access import Right
from workspaces.actions.rewinds import rewind_wire, undoable_rewind
from workspaces.models import Rewind, RewindState
from workspaces.queries.sessions import require_session
from workspaces.rest.messages import AuthorSerializer
from workspaces.rest.sessions import SessionBase
from workspaces.rest.view import Resource


class SessionDetail(SessionBase):
    """One session."""

    rights: ClassVar = {**SessionBase.rights, "delete": Right.CANCEL}

    @extend_schema(responses={204: None})
    def delete(self, _: Request, workspace_id: str, session_id: str) -> Response:
        """Cancels its runs and deletes it, with its child sessions."""
        self.act(delete_session, workspace_id, session_id, actor=self.actor)
        return Response(status=204)


class RewoundFileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="Absolute.")
    result = serializers.ChoiceField(
        [result.value for result in FileResult], help_text="What happened to the file."
    )
    reason = serializers.ChoiceField(
        ["", *(reason.value for reason in LeftReason)],
        help_text="Why it was left alone; empty if it was not.",
    )


class RewindSerializer(serializers.Serializer[Any]):
    """A removal of a session's newest messages."""

    id = serializers.CharField(help_text="A UUID.")
    session_id = serializers.CharField(help_text="The session.")
    message_id = serializers.CharField(help_text="The newest message that stays; empty: none does.")
    state = serializers.ChoiceField(RewindState.choices, help_text="How far it is.")
    with_files = serializers.BooleanField(help_text="Whether files were restored, too.")
    files = RewoundFileSerializer(many=True, help_text="What happened to each file.")
    undone_files = RewoundFileSerializer(many=True, help_text="The same when it was undone.")
    author = AuthorSerializer(allow_null=True, help_text="Who did it.")
    undone_by = AuthorSerializer(allow_null=True, help_text="Who undid it.")
    created_at = serializers.IntegerField(help_text="Unix seconds.")
    can_undo = serializers.BooleanField(
        required=False,
        help_text="In lists: whether it can be undone, because nothing has followed.",
    )


class NewRewindSerializer(serializers.Serializer[Any]):
    message_id = serializers.CharField(
        max_length=36,
        allow_blank=True,
        default="",
        help_text="A message of the session. Empty: all messages are removed.",
    )
    keeps_message = serializers.BooleanField(
        default=True, help_text="False: this message is removed, too."
    )
    with_files = serializers.BooleanField(
        default=False, help_text="Undoes what tools wrote to files after the message."
    )


class RewindList(Resource):
    """The rewinds of a session, the newest first."""

    rights: ClassVar = {"get": Right.READ, "post": Right.CANCEL}
    folder_methods: ClassVar = frozenset({"post"})
    serializer_class = RewindSerializer
    queryset = Rewind.objects.none()
    ordering = ("-created_at", "-id")

    def get(self, _: Request, workspace_id: str, session_id: str) -> Response:
        require_session(workspace_id, session_id)
        undoable = undoable_rewind(session_id)
        return self.page(
            Rewind.objects.filter(session_id=session_id),
            lambda row: rewind_wire(row) | {"can_undo": row.pk == undoable},
        )

    @extend_schema(request=NewRewindSerializer, responses={201: RewindSerializer})
    def post(self, _: Request, workspace_id: str, session_id: str) -> Response:
        """Rewinds the session to a message."""
        wanted = self.body(NewRewindSerializer)
        done = self.act(rewind, workspace_id, session_id, actor=self.actor, **wanted)
        return Response(done, status=201)


class PreviewedMessageSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="The message.")
    role = serializers.ChoiceField(["user", "assistant"], help_text="Who wrote it.")
    first_line = serializers.CharField(
        help_text="What it begins with: plain text, at most 200 characters."
    )


class RewindPreviewSerializer(serializers.Serializer[Any]):
    message_count = serializers.IntegerField(
        help_text="How many messages would be removed, those of tools included."
    )
    messages = PreviewedMessageSerializer(
        many=True, help_text="The first 100 of them, without those of tools."
    )
    files = RewoundFileSerializer(many=True, help_text="What would happen to each file.")
    is_busy = serializers.BooleanField(
        help_text="Work has not ended, so a rewind would be refused now."
    )


class RewindPreview(Resource):
    """What a rewind would do."""

    rights: ClassVar = {"get": Right.READ}
    folder_methods: ClassVar = frozenset({"get"})
    serializer_class = RewindPreviewSerializer
    pagination_class = None  # type: ignore[assignment]  # one object

    @extend_schema(parameters=[NewRewindSerializer])
    def get(self, _: Request, workspace_id: str, session_id: str) -> Response:
        """The messages that it would remove, and the files that it would restore, as they are now.

        Changes nothing.
        """
        wanted = self.query(NewRewindSerializer)
        return Response(preview_rewind(workspace_id, session_id, **wanted))


class RewindUndo(Resource):
    """The undoing of a rewind."""

    rights: ClassVar = {"post": Right.CANCEL}
    folder_methods: ClassVar = frozenset({"post"})
    serializer_class = RewindSerializer

    @extend_schema(request=None, responses=RewindSerializer)
    def post(self, _: Request, workspace_id: str, session_id: str, rewind_id: str) -> Response:
        """Restores the messages and files of a rewind, unless the session has gone on since."""
        return Response(
            self.act(undo_rewind, workspace_id, session_id, rewind_id, actor=self.actor)
        )
