"""Grants: answers that also count for later calls of the person who gave them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from permissions.actions.grants import grant_wire, person, revoke_grant
from permissions.models import Grant, GrantScope
from workspaces.access import Right
from workspaces.log.errors import Forbidden, GrantUnknown
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer
from workspaces.rest.messages import AuthorSerializer
from workspaces.rest.view import Resource

ID_LIMIT = 200


class GrantSerializer(serializers.Serializer[Any]):
    """A person's answer that allows later calls, too."""

    id = serializers.CharField(help_text="The grant's id.")
    workspace_id = serializers.CharField(help_text="Its workspace.")
    scope = serializers.ChoiceField(
        [(s.value, s.label) for s in GrantScope if s != GrantScope.ONCE],
        help_text="What it is for: a run, a session, or the workspace.",
    )
    session_id = serializers.CharField(
        required=False, help_text="The session of a grant for a run or a session."
    )
    run_key = serializers.IntegerField(required=False, help_text="The run of a grant for a run.")
    tool_name = serializers.CharField(help_text="The tool that it allows.")
    action = serializers.CharField(help_text="What the tool may do.")
    path = serializers.CharField(help_text="With which file or folder.")
    is_folder = serializers.BooleanField(help_text="Also with everything in that folder.")
    author = AuthorSerializer(
        allow_null=True, help_text="Who gave it: it counts for the runs of this person."
    )
    granted_at = serializers.IntegerField(help_text="When it was given, in unix seconds.")
    expires_at = serializers.IntegerField(
        allow_null=True, help_text="When it ends, in unix seconds."
    )


class GrantFilter(serializers.Serializer[Any]):
    workspace_id = serializers.CharField(
        required=False, max_length=ID_LIMIT, help_text="Only of this workspace."
    )
    session_id = serializers.CharField(
        required=False, max_length=ID_LIMIT, help_text="Only of this session."
    )
    is_own = serializers.BooleanField(default=False, help_text="Only those that you gave.")


class GrantList(Resource):
    """The valid grants of all workspaces that you may read."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = GrantSerializer
    queryset = Grant.objects.all()
    ordering = ("-granted_at", "-id")

    @extend_schema(parameters=[GrantFilter])
    def get(self, _: Request) -> Response:
        wanted = self.query(GrantFilter)
        if wanted.pop("is_own"):
            wanted["user_id"] = person(self.caller.identity.user_id)
        valid = Q(expires_at__isnull=True) | Q(expires_at__gt=now_ms())
        return self.page(self.visible(self.get_queryset().filter(valid, **wanted)), grant_wire)


class GrantDetail(Resource):
    """One grant."""

    rights: ClassVar = {"get": Right.READ, "delete": Right.ANSWER}
    allows_closed = True
    serializer_class = GrantSerializer

    def get(self, _: Request, workspace_id: str, grant_id: int) -> Response:
        return Response(grant_wire(_grant(workspace_id, grant_id)))

    def delete(self, _: Request, workspace_id: str, grant_id: int) -> Response:
        """Revokes a grant: your own, or any one as an administrator of the workspace."""
        grant = _grant(workspace_id, grant_id)
        identity = self.caller.identity
        is_own = grant.user_id == person(identity.user_id)
        if not is_own and not identity.may(Right.ADMINISTER, workspace_id):
            raise Forbidden("This grant belongs to another person.")
        self.act(_revoke, workspace_id, grant_id, self.actor)
        return Response(status=204)


async def _revoke(workspace_id: str, grant_id: int, actor: Any) -> None:
    await writer.write(workspace_id, lambda tx: revoke_grant(tx, grant_id, actor=actor))


def _grant(workspace_id: str, grant_id: int) -> Grant:
    found = Grant.objects.filter(pk=grant_id, workspace_id=workspace_id).first()
    if found is None:
        raise GrantUnknown
    return found
