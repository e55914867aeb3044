"""Workspaces: the folders that agents work in."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces.access import Right
from workspaces.models import PermissionMode, Workspace
from workspaces.rest.answers import Seconds
from workspaces.rest.view import Resource

OPEN, CLOSED, ALL = "open", "closed", "all"


class WorkspaceSerializer(serializers.ModelSerializer[Workspace]):
    """A workspace."""

    id = serializers.CharField(read_only=True, help_text="A UUID.")
    path = serializers.CharField(help_text="The folder, absolute, symlinks followed.")
    permission_mode = serializers.ChoiceField(
        PermissionMode.choices, help_text="Whether permissions are requested."
    )
    last_event = serializers.IntegerField(help_text="The number of the newest event of its log.")
    created_at = Seconds(help_text="When its folder was opened for the first time.")
    opened_at = Seconds(help_text="When it was opened at last.")
    is_open = serializers.BooleanField(help_text="Whether a client or a run keeps it open.")

    class Meta:
        model = Workspace
        fields = (
            "id",
            "path",
            "permission_mode",
            "last_event",
            "created_at",
            "opened_at",
            "is_open",
        )


class WorkspaceQuerySerializer(serializers.Serializer[Any]):
    state = serializers.ChoiceField(
        [OPEN, CLOSED, ALL], default=OPEN, help_text="Whether closed workspaces are listed."
    )


class WorkspaceList(Resource):
    """The workspaces that you may read, the newest first."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = WorkspaceSerializer
    queryset = Workspace.objects.all()
    ordering = ("-opened_at", "-id")

    @extend_schema(parameters=[WorkspaceQuerySerializer])
    def get(self, _: Request) -> Response:
        state = self.query(WorkspaceQuerySerializer)["state"]
        found = self.visible(self.get_queryset(), "id")
        return self.page(found if state == ALL else found.filter(is_open=state == OPEN))


class WorkspaceDetail(Resource):
    """One workspace."""

    rights: ClassVar = {"get": Right.READ}
    serializer_class = WorkspaceSerializer
    queryset = Workspace.objects.filter(is_open=True)
    lookup_url_kwarg = "workspace_id"

    def get(self, *_: Any, **__: Any) -> Response:
        return Response(self.get_serializer(self.get_object()).data)
