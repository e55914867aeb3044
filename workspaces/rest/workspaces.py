"""Workspaces: the folders that agents work in."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces.access import Right
from workspaces.log.errors import WorkspaceUnknown
from workspaces.models import PermissionMode, Workspace
from workspaces.placement.roots import labels_in
from workspaces.rest.answers import Seconds
from workspaces.rest.view import SHOWN_RIGHTS, Resource

OPEN, CLOSED, ALL = "open", "closed", "all"


class WorkspaceSerializer(serializers.ModelSerializer[Workspace]):
    """A workspace."""

    id = serializers.CharField(read_only=True, help_text="A UUID.")
    path = serializers.CharField(help_text="The folder, absolute, symlinks followed.")
    permission_mode = serializers.ChoiceField(
        PermissionMode.choices, help_text="Whether permissions are requested."
    )
    last_event = serializers.IntegerField(help_text="The number of the newest event of its log.")
    first_event = serializers.IntegerField(
        help_text="The number of the oldest event that its log keeps."
    )
    created_at = Seconds(help_text="When its folder was opened for the first time.")
    opened_at = Seconds(help_text="When it was opened at last.")
    is_open = serializers.BooleanField(help_text="Whether a client or a run keeps it open.")
    labels = serializers.SerializerMethodField(help_text="Those that its worker must have.")
    can = serializers.SerializerMethodField(help_text="Your rights in this workspace.")

    class Meta:
        model = Workspace
        fields = (
            "id",
            "path",
            "permission_mode",
            "last_event",
            "first_event",
            "created_at",
            "opened_at",
            "is_open",
            "labels",
            "can",
        )

    def get_labels(self, workspace: Workspace) -> list[str]:
        return labels_in(workspace.labels)

    @extend_schema_field(
        serializers.ListField(
            child=serializers.ChoiceField([right.value for right in SHOWN_RIGHTS])
        )
    )
    def get_can(self, workspace: Workspace) -> list[str]:
        view: Resource = self.context["view"]
        return view.rights_in(workspace.pk)


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
    queryset = Workspace.objects.all()
    allows_closed: ClassVar = True

    def get(self, *_: Any, **__: Any) -> Response:
        """One workspace, open or closed. A closed one is opened by its `path`."""
        found = self.get_queryset().filter(pk=self.kwargs["workspace_id"]).first()
        if found is None:
            raise WorkspaceUnknown
        return Response(self.get_serializer(found).data)
