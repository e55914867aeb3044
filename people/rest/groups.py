"""Groups of users, and the role that each gives: for administrators of the whole server."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django.contrib.auth.models import Group
from django.db.models import Count, Q
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from people.actions.groups import (
    GroupUnknown,
    add_group,
    delete_group,
    delete_group_role,
    set_group_role,
)
from people.identities import IDENTITIES
from people.models import GroupRole
from people.rest.me import require_unlimited
from workspaces.access import MemberRole, Right
from workspaces.log.writer import writer
from workspaces.models import Workspace
from workspaces.rest.view import Resource

NAME_LIMIT = 150


class GroupSerializer(serializers.Serializer[Any]):
    """A group of users."""

    id = serializers.CharField(read_only=True, help_text="A number, as text.")
    name = serializers.CharField(max_length=NAME_LIMIT, help_text="Unique.")
    user_count = serializers.IntegerField(read_only=True, help_text="How many users are in it.")


class GroupList(Resource):
    """The groups of users, by name, also those without a role."""

    rights: ClassVar = {"get": Right.ADMINISTER, "post": Right.ADMINISTER}
    serializer_class = GroupSerializer
    queryset = Group.objects.annotate(user_count=Count("user"))
    ordering = ("name",)

    def get(self, _: Request) -> Response:
        return self.page(self.get_queryset())

    @extend_schema(responses={201: GroupSerializer})
    def post(self, _: Request) -> Response:
        """Adds a group without users and roles."""
        require_unlimited(self.caller.identity)
        add = partial(add_group, name=self.body()["name"], actor=self.actor)
        group = self.act(writer.write, "", add)
        return Response({"id": str(group.pk), "name": group.name, "user_count": 0}, status=201)


class GroupDetail(Resource):
    """One group."""

    rights: ClassVar = {"delete": Right.ADMINISTER}
    unknown = GroupUnknown

    @extend_schema(responses={204: None})
    def delete(self, _: Request, group_id: int) -> Response:
        """Deletes the group with its roles. Its users stay."""
        require_unlimited(self.caller.identity)
        delete = partial(delete_group, group_id=group_id, actor=self.actor)
        self.act(writer.write, "", delete)
        IDENTITIES.forget()
        return Response(status=204)


class GroupRoleSerializer(serializers.ModelSerializer[GroupRole]):
    """The role of everyone in a group."""

    id = serializers.CharField(read_only=True, help_text="A number, as text.")
    group = serializers.CharField(
        source="group.name", max_length=NAME_LIMIT, help_text="The group's name."
    )
    workspace_id = serializers.PrimaryKeyRelatedField(
        source="workspace",
        queryset=Workspace.objects.all(),
        allow_null=True,
        help_text="Where it holds; null: in every workspace.",
    )
    role = serializers.ChoiceField(
        [role.value for role in MemberRole], help_text="What the members of the group may do."
    )

    class Meta:
        model = GroupRole
        fields = ("id", "group", "workspace_id", "role")
        validators = ()  # a second one for the same workspace replaces the first


class GroupRoleList(Resource):
    """The roles of groups."""

    rights: ClassVar = {"get": Right.ADMINISTER, "post": Right.ADMINISTER}
    serializer_class = GroupRoleSerializer
    queryset = GroupRole.objects.select_related("group")
    ordering = ("id",)

    def get(self, _: Request) -> Response:
        return self.page(self.get_queryset())

    @extend_schema(responses={201: GroupRoleSerializer})
    def post(self, _: Request) -> Response:
        """Gives a group a role, instead of the one that it has there. A new group is created."""
        require_unlimited(self.caller.identity)
        body = self.body()
        give = partial(
            set_group_role,
            group_name=body["group"]["name"],
            workspace=body["workspace"],
            role=MemberRole(body["role"]),
            actor=self.actor,
        )
        row = self.act(writer.write, "", give)
        IDENTITIES.forget()
        return Response(self.get_serializer(row).data, status=201)


class WorkspaceGroupRoleList(Resource):
    """The roles that groups give in a workspace, also those that hold in every workspace."""

    rights: ClassVar = {"get": Right.READ}
    allows_closed: ClassVar = True
    serializer_class = GroupRoleSerializer
    queryset = GroupRole.objects.select_related("group")
    ordering = ("id",)

    def get(self, _: Request, workspace_id: str) -> Response:
        here = Q(workspace_id=workspace_id) | Q(workspace__isnull=True)
        return self.page(self.get_queryset().filter(here))


class GroupRoleDetail(Resource):
    """One role of a group."""

    rights: ClassVar = {"delete": Right.ADMINISTER}

    @extend_schema(responses={204: None})
    def delete(self, _: Request, group_role_id: int) -> Response:
        """Takes the role away."""
        require_unlimited(self.caller.identity)
        take = partial(delete_group_role, row_id=group_role_id, actor=self.actor)
        self.act(writer.write, "", take)
        IDENTITIES.forget()
        return Response(status=204)
