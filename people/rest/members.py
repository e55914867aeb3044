"""Members of a workspace: its users with a role."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from people.actions.members import set_role
from people.identities import IDENTITIES
from people.models import Member
from workspaces.access import MemberRole, Right
from workspaces.log.errors import UserUnknown, WorkspaceUnknown
from workspaces.log.writer import writer
from workspaces.models import Workspace
from workspaces.rest.answers import Seconds
from workspaces.rest.view import Resource


class MemberSerializer(serializers.ModelSerializer[Member]):
    """A user's role in one workspace."""

    user_id = serializers.CharField(read_only=True, help_text="The user.")
    name = serializers.CharField(source="user.username", help_text="The user's name.")
    role = serializers.ChoiceField(
        [role.value for role in MemberRole], help_text="Each role includes the one before it."
    )
    added_at = Seconds(help_text="When the user became a member.")

    class Meta:
        model = Member
        fields = ("user_id", "name", "role", "added_at")


class NewMemberBody(serializers.Serializer[Any]):
    """A user by name, and the role."""

    name = serializers.CharField(max_length=150, help_text="The user's name.")
    role = serializers.ChoiceField(
        [role.value for role in MemberRole], help_text="What the user may do in the workspace."
    )


class MemberResource(Resource):
    """What both resources of members share."""

    serializer_class = MemberSerializer
    queryset = Member.objects.select_related("user")
    allows_closed: ClassVar = True

    def set_role(self, workspace_id: str, user: User, role: MemberRole | None) -> None:
        workspace = Workspace.objects.get(pk=workspace_id)
        change = partial(set_role, user=user, workspace=workspace, role=role, actor=self.actor)
        self.act(writer.write, "", change)
        IDENTITIES.forget()


class MemberList(MemberResource):
    """The members of a workspace. Staff and members by a group are not listed."""

    rights: ClassVar = {"get": Right.READ, "post": Right.ADMINISTER}
    ordering = ("id",)

    def get(self, _: Request, workspace_id: str) -> Response:
        return self.page(self.get_queryset().filter(workspace_id=workspace_id))

    @extend_schema(request=NewMemberBody, responses={201: MemberSerializer})
    def post(self, _: Request, workspace_id: str) -> Response:
        """Gives a user a role, instead of the one that the user has."""
        require_workspace(workspace_id)
        body = self.body(NewMemberBody)
        user = get_user_model().objects.filter(username=body["name"]).first()
        if user is None:
            raise UserUnknown
        self.set_role(workspace_id, user, MemberRole(body["role"]))
        member = self.get_queryset().get(workspace_id=workspace_id, user=user)
        return Response(self.get_serializer(member).data, status=201)


class MemberDetail(MemberResource):
    """One member."""

    rights: ClassVar = {"delete": Right.ADMINISTER}

    @extend_schema(responses={204: None})
    def delete(self, _: Request, workspace_id: str, user_id: int) -> Response:
        """Takes the role away."""
        member = self.get_queryset().filter(workspace_id=workspace_id, user_id=user_id).first()
        if member is None:
            raise UserUnknown
        self.set_role(workspace_id, member.user, None)
        return Response(status=204)


def require_workspace(workspace_id: str) -> None:
    """Raises ``WorkspaceUnknown``, for an open and a closed one alike."""
    if not Workspace.objects.filter(pk=workspace_id).exists():
        raise WorkspaceUnknown
